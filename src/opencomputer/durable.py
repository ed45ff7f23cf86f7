"""The records of durable agents and sessions: what `OpenComputer` and `connect_session` give.

Kept apart from the package itself, because names such as `Turn` are common there.
"""

from opencomputer.sdk.durable.agent_records import (
    Activation,
    ActiveRevision,
    AgentSkills,
    AgentVersion,
    Credential,
    Deployed,
    Deployment,
    DeploymentLog,
    DurableAgent,
    Revision,
    RevisionFile,
    Skill,
)
from opencomputer.sdk.durable.bodies import NOT_GIVEN, NotGiven
from opencomputer.sdk.durable.events import (
    Actor,
    AgentMessage,
    AgentThinking,
    ErrorEvent,
    ExecCompleted,
    HttpRequest,
    PreviewUrl,
    SessionEvent,
    ToolCall,
    ToolResult,
    TurnCompleted,
    TurnStarted,
    UserMessage,
)
from opencomputer.sdk.durable.projects import ProjectError
from opencomputer.sdk.durable.records import Page, Record
from opencomputer.sdk.durable.session_records import (
    Accepted,
    Delivery,
    Destination,
    SessionData,
    SessionResult,
    Turn,
    TurnError,
    Usage,
)

__all__ = [
    "NOT_GIVEN",
    "Accepted",
    "Activation",
    "ActiveRevision",
    "Actor",
    "AgentMessage",
    "AgentSkills",
    "AgentThinking",
    "AgentVersion",
    "Credential",
    "Delivery",
    "Deployed",
    "Deployment",
    "DeploymentLog",
    "Destination",
    "DurableAgent",
    "ErrorEvent",
    "ExecCompleted",
    "HttpRequest",
    "NotGiven",
    "Page",
    "PreviewUrl",
    "ProjectError",
    "Record",
    "Revision",
    "RevisionFile",
    "SessionData",
    "SessionEvent",
    "SessionResult",
    "Skill",
    "ToolCall",
    "ToolResult",
    "Turn",
    "TurnCompleted",
    "TurnError",
    "TurnStarted",
    "Usage",
    "UserMessage",
]
