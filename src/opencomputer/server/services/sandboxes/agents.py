"""Claude sessions inside a sandbox: exec sessions whose program is the agent runner."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from opencomputer.server.contracts.machine import Machine, ProcessKind, ProcessRecord, ProcessSpec
from opencomputer.server.domain import naming
from opencomputer.server.domain.egress import METADATA_URL
from opencomputer.server.domain.errors import NotSupported
from opencomputer.server.services.sandboxes.live import LiveSandbox
from opencomputer.server.services.sandboxes.sessions import Sessions
from opencomputer.wire.ids import ProcessId

RUNNER = "claude-agent-wrapper"
GATEWAY_URL = f"{METADATA_URL}/v1/model/anthropic"
PLACEHOLDER_KEY = "provided-by-the-node"
CLAUDE_SESSION_LABEL = "claudeSession"
DELIVERED_TURN_END_LABEL = "deliveredTurnEnd"
# Beyond all output there will be: whoever only writes needs no replay.
_END = 1 << 62
_CREDENTIALS = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN")


def model_environment(given: Collection[str], gateway_available: bool) -> Mapping[str, str]:
    """What the runner's environment needs so that the engine finds a model.

    `given` are the names of the variables that a sandbox has by itself, sealed or not. A credential among
    them always wins; then nothing is added.
    """
    if any(name in given for name in _CREDENTIALS) or not gateway_available:
        return {}
    return {"ANTHROPIC_BASE_URL": GATEWAY_URL, "ANTHROPIC_API_KEY": PLACEHOLDER_KEY}


SealedNames = Callable[[Machine], frozenset[str]]
"""The variables of a machine that hold a token in the place of a secret."""


@dataclass(frozen=True)
class AgentRequest:
    """`configuration` becomes one `configure` line when it is not empty."""

    prompt: str | None = None
    configuration: Mapping[str, Any] = field(default_factory=dict[str, Any])


class Agents:
    """Starts runners and writes their command lines. Events are read through the exec socket."""

    def __init__(self, sessions: Sessions, sealed: SealedNames, *, gateway_available: bool) -> None:
        self._sessions = sessions
        self._sealed = sealed
        self._gateway_available = gateway_available

    async def start(self, live: LiveSandbox, request: AgentRequest) -> ProcessRecord:
        """Start a runner, configure and prompt it; does not wait for the model."""
        own = {name for name, value in live.sandbox.environment.items() if value}
        spec = ProcessSpec(
            id=naming.new_process_id(),
            kind=ProcessKind.AGENT,
            argv=(RUNNER,),
            environment=model_environment(own | self._sealed(live.machine), self._gateway_available),
            stdin=True,
        )
        record = await live.machine.processes.spawn(spec)
        if record.exit is not None and record.exit.error is not None:
            raise NotSupported(f"this template has no agent runner: {record.exit.error}")
        self._sessions.record(live, record)
        lines: list[Mapping[str, Any]] = []
        if request.configuration:
            lines.append({"type": "configure", **request.configuration})
        if request.prompt is not None:
            lines.append({"type": "prompt", "text": request.prompt})
        if lines:
            await self._write(live, ProcessId(record.id), *lines)
        return record

    async def list(self, live: LiveSandbox) -> Sequence[ProcessRecord]:
        return [each for each in await live.machine.processes.list() if each.kind is ProcessKind.AGENT]

    async def prompt(self, live: LiveSandbox, process_id: ProcessId, text: str) -> None:
        await self._command(live, process_id, {"type": "prompt", "text": text})

    async def interrupt(self, live: LiveSandbox, process_id: ProcessId) -> None:
        await self._command(live, process_id, {"type": "interrupt"})

    async def kill(self, live: LiveSandbox, process_id: ProcessId, signal: int) -> None:
        await self._sessions.kill(live, process_id, signal, ProcessKind.AGENT)

    async def _command(self, live: LiveSandbox, process_id: ProcessId, line: Mapping[str, Any]) -> None:
        await self._sessions.get(live, process_id, ProcessKind.AGENT)
        await self._write(live, process_id, line)

    async def _write(self, live: LiveSandbox, process_id: ProcessId, *lines: Mapping[str, Any]) -> None:
        text = "".join(json.dumps(line) + "\n" for line in lines)
        async with live.machine.processes.attach(process_id, offset=_END) as attachment:
            await attachment.write(text.encode())
