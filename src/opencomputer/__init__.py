"""OpenComputer's Python SDK: isolated Linux machines for AI agents and untrusted programs.

Everything public is importable from here. Names are loaded at first use, so that importing the package is
cheap.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from opencomputer.sdk.agent import Agent, AgentSessionInfo
    from opencomputer.sdk.agent_events import AgentEvent
    from opencomputer.sdk.agent_session import AgentSession
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
        PlanLimitError,
        RateLimitError,
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
    from opencomputer.sdk.image import Image, ImageStep
    from opencomputer.sdk.process_result import ExecSessionInfo, ProcessResult
    from opencomputer.sdk.pty import LinkLostError, Pty, PtySession
    from opencomputer.sdk.sandbox import Sandbox
    from opencomputer.sdk.sandbox_request import SandboxRequest
    from opencomputer.sdk.secret_stores import SecretStore
    from opencomputer.sdk.shell import Shell
    from opencomputer.sdk.snapshots import Snapshots

    __version__: str

_MODULE_OF = {
    "Agent": "agent",
    "AgentEvent": "agent_events",
    "AgentSession": "agent_session",
    "AgentSessionInfo": "agent",
    "AuthError": "errors",
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
    "Image": "image",
    "ImageStep": "image",
    "LinkLostError": "pty",
    "NotFoundError": "errors",
    "NotSupportedError": "errors",
    "OpenComputer": "durable.client",
    "OpenComputerError": "errors",
    "PlanLimitError": "errors",
    "ProcessResult": "process_result",
    "Pty": "pty",
    "PtySession": "pty",
    "RateLimitError": "errors",
    "Sandbox": "sandbox",
    "SandboxRequest": "sandbox_request",
    "SandboxStoppedError": "errors",
    "ScalingLockedError": "errors",
    "SecretStore": "secret_stores",
    "Session": "durable.session",
    "Shell": "shell",
    "ShellBusyError": "errors",
    "ShellClosedError": "errors",
    "Snapshots": "snapshots",
    "UnavailableError": "errors",
    "UnexpectedAnswerError": "errors",
    "ValidationError": "errors",
    "WebhookDelivery": "durable.webhooks",
    "WebhookVerificationError": "durable.webhooks",
    "connect_session": "durable.client",
    "verify_webhook": "durable.webhooks",
}

__all__ = [
    "Agent",
    "AgentEvent",
    "AgentSession",
    "AgentSessionInfo",
    "AuthError",
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
    "Image",
    "ImageStep",
    "LinkLostError",
    "NotFoundError",
    "NotSupportedError",
    "OpenComputer",
    "OpenComputerError",
    "PlanLimitError",
    "ProcessResult",
    "Pty",
    "PtySession",
    "RateLimitError",
    "Sandbox",
    "SandboxRequest",
    "SandboxStoppedError",
    "ScalingLockedError",
    "SecretStore",
    "Session",
    "Shell",
    "ShellBusyError",
    "ShellClosedError",
    "Snapshots",
    "UnavailableError",
    "UnexpectedAnswerError",
    "ValidationError",
    "WebhookDelivery",
    "WebhookVerificationError",
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
    value = getattr(import_module(f"opencomputer.sdk.{module}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
