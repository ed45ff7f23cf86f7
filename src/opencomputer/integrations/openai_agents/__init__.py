"""Sandboxes for the OpenAI Agents SDK: `SandboxRunConfig(client=OpenComputerSandboxClient())`."""

from opencomputer.integrations.openai_agents.client import OpenComputerSandboxClient
from opencomputer.integrations.openai_agents.records import (
    OpenComputerSandboxClientOptions,
    OpenComputerSandboxSessionState,
)
from opencomputer.integrations.openai_agents.session import OpenComputerSandboxSession

__all__ = [
    "OpenComputerSandboxClient",
    "OpenComputerSandboxClientOptions",
    "OpenComputerSandboxSession",
    "OpenComputerSandboxSessionState",
]
