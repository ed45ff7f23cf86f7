"""OpenComputer's Python SDK: isolated Linux machines for AI agents and untrusted programs.

Everything public is importable from here. Names are loaded at first use, so that importing the package is
cheap.
"""

from __future__ import annotations

TYPE_CHECKING = False  # as in typing, which takes longer to load than all the rest of this module
if TYPE_CHECKING:
    from opencomputer.sdk.agent import Agent, AgentSessionInfo
    from opencomputer.sdk.agent_events import AgentEvent
    from opencomputer.sdk.agent_session import AgentSession
    from opencomputer.sdk.auth_check import AuthCheck
    from opencomputer.sdk.browser import Browser
    from opencomputer.sdk.browser_profile import BrowserProfile
    from opencomputer.sdk.checkpoints import Checkpoint, Checkpoints
    from opencomputer.sdk.diffs import FileChange
    from opencomputer.sdk.durable.client import OpenComputer, connect_session
    from opencomputer.sdk.durable.client_session import ClientSession
    from opencomputer.sdk.durable.session import Session
    from opencomputer.sdk.durable.webhooks import WebhookDelivery, WebhookVerificationError, verify_webhook
    from opencomputer.sdk.errors import (
        AuthError,
        BuildFailedError,
        CheckpointFailedError,
        ConflictError,
        ExecFailedError,
        ExecTimeoutError,
        NotFoundError,
        NotSupportedError,
        OpenComputerError,
        OperationFailedError,
        PlanLimitError,
        RateLimitError,
        SandboxFamilyLimitError,
        SandboxStoppedError,
        ScalingLockedError,
        ShellBusyError,
        ShellClosedError,
        UnavailableError,
        UnexpectedAnswerError,
        ValidationError,
    )
    from opencomputer.sdk.exec import Exec
    from opencomputer.sdk.exec_session import ExecSession
    from opencomputer.sdk.files import EntryInfo, Filesystem
    from opencomputer.sdk.hosted.client import HostedAgents
    from opencomputer.sdk.image import Image, ImageStep
    from opencomputer.sdk.logs import LogLine
    from opencomputer.sdk.mounts import MountInfo, Mounts
    from opencomputer.sdk.process_result import ExecSessionInfo, ProcessResult
    from opencomputer.sdk.pty import Pty, PtySession
    from opencomputer.sdk.sandbox import Sandbox
    from opencomputer.sdk.sandbox_request import SandboxRequest
    from opencomputer.sdk.secret_stores import SecretStore
    from opencomputer.sdk.shell import Shell
    from opencomputer.sdk.snapshots import Snapshots
    from opencomputer.sdk.tags import Tags
    from opencomputer.sdk.templates import Template, TemplateInfo, Templates
    from opencomputer.sdk.terminal_ends import LinkLostError
    from opencomputer.sdk.usage import Usage
    from opencomputer.sdk.usage_records import (
        SandboxUsagePoint,
        SandboxUsageResponse,
        SandboxUsageTotals,
        TagKeyInfo,
        UsageBySandboxResponse,
        UsageByTagResponse,
        UsageSandboxItem,
        UsageTagItem,
        UsageTotals,
        UsageUntaggedBucket,
    )
    from opencomputer.sdk.webhook_records import (
        WebhookAttempt,
        WebhookDestination,
        WebhookMessage,
        WebhookTest,
    )
    from opencomputer.sdk.webhooks import WebhookDeliveries, Webhooks

    __version__: str

_MODULE_OF = {
    "Agent": "agent",
    "AgentEvent": "agent_events",
    "AgentSession": "agent_session",
    "AgentSessionInfo": "agent",
    "AuthCheck": "auth_check",
    "AuthError": "errors",
    "Browser": "browser",
    "BrowserProfile": "browser_profile",
    "BuildFailedError": "errors",
    "Checkpoint": "checkpoints",
    "CheckpointFailedError": "errors",
    "Checkpoints": "checkpoints",
    "ClientSession": "durable.client_session",
    "ConflictError": "errors",
    "EntryInfo": "files",
    "Exec": "exec",
    "ExecFailedError": "errors",
    "ExecSession": "exec_session",
    "ExecSessionInfo": "process_result",
    "ExecTimeoutError": "errors",
    "FileChange": "diffs",
    "Filesystem": "files",
    "HostedAgents": "hosted.client",
    "Image": "image",
    "ImageStep": "image",
    "LinkLostError": "terminal_ends",
    "LogLine": "logs",
    "MountInfo": "mounts",
    "Mounts": "mounts",
    "NotFoundError": "errors",
    "NotSupportedError": "errors",
    "OpenComputer": "durable.client",
    "OpenComputerError": "errors",
    "OperationFailedError": "errors",
    "PlanLimitError": "errors",
    "ProcessResult": "process_result",
    "Pty": "pty",
    "PtySession": "pty",
    "RateLimitError": "errors",
    "Sandbox": "sandbox",
    "SandboxFamilyLimitError": "errors",
    "SandboxRequest": "sandbox_request",
    "SandboxStoppedError": "errors",
    "SandboxUsagePoint": "usage_records",
    "SandboxUsageResponse": "usage_records",
    "SandboxUsageTotals": "usage_records",
    "ScalingLockedError": "errors",
    "SecretStore": "secret_stores",
    "Session": "durable.session",
    "Shell": "shell",
    "ShellBusyError": "errors",
    "ShellClosedError": "errors",
    "Snapshots": "snapshots",
    "TagKeyInfo": "usage_records",
    "Tags": "tags",
    "Template": "templates",
    "TemplateInfo": "templates",
    "Templates": "templates",
    "UnavailableError": "errors",
    "UnexpectedAnswerError": "errors",
    "Usage": "usage",
    "UsageBySandboxResponse": "usage_records",
    "UsageByTagResponse": "usage_records",
    "UsageSandboxItem": "usage_records",
    "UsageTagItem": "usage_records",
    "UsageTotals": "usage_records",
    "UsageUntaggedBucket": "usage_records",
    "ValidationError": "errors",
    "WebhookAttempt": "webhook_records",
    "WebhookDeliveries": "webhooks",
    "WebhookDelivery": "durable.webhooks",
    "WebhookDestination": "webhook_records",
    "WebhookMessage": "webhook_records",
    "WebhookTest": "webhook_records",
    "WebhookVerificationError": "durable.webhooks",
    "Webhooks": "webhooks",
    "connect_session": "durable.client",
    "verify_webhook": "durable.webhooks",
}

__all__ = [
    "Agent",
    "AgentEvent",
    "AgentSession",
    "AgentSessionInfo",
    "AuthCheck",
    "AuthError",
    "Browser",
    "BrowserProfile",
    "BuildFailedError",
    "Checkpoint",
    "CheckpointFailedError",
    "Checkpoints",
    "ClientSession",
    "ConflictError",
    "EntryInfo",
    "Exec",
    "ExecFailedError",
    "ExecSession",
    "ExecSessionInfo",
    "ExecTimeoutError",
    "FileChange",
    "Filesystem",
    "HostedAgents",
    "Image",
    "ImageStep",
    "LinkLostError",
    "LogLine",
    "MountInfo",
    "Mounts",
    "NotFoundError",
    "NotSupportedError",
    "OpenComputer",
    "OpenComputerError",
    "OperationFailedError",
    "PlanLimitError",
    "ProcessResult",
    "Pty",
    "PtySession",
    "RateLimitError",
    "Sandbox",
    "SandboxFamilyLimitError",
    "SandboxRequest",
    "SandboxStoppedError",
    "SandboxUsagePoint",
    "SandboxUsageResponse",
    "SandboxUsageTotals",
    "ScalingLockedError",
    "SecretStore",
    "Session",
    "Shell",
    "ShellBusyError",
    "ShellClosedError",
    "Snapshots",
    "TagKeyInfo",
    "Tags",
    "Template",
    "TemplateInfo",
    "Templates",
    "UnavailableError",
    "UnexpectedAnswerError",
    "Usage",
    "UsageBySandboxResponse",
    "UsageByTagResponse",
    "UsageSandboxItem",
    "UsageTagItem",
    "UsageTotals",
    "UsageUntaggedBucket",
    "ValidationError",
    "WebhookAttempt",
    "WebhookDeliveries",
    "WebhookDelivery",
    "WebhookDestination",
    "WebhookMessage",
    "WebhookTest",
    "WebhookVerificationError",
    "Webhooks",
    "__version__",
    "connect_session",
    "verify_webhook",
]


def __getattr__(name: str) -> object:
    if name == "__version__":
        from opencomputer.sdk.version import installed_version

        return installed_version()
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"opencomputer.sdk.{module}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
