"""Running a script in a machine to its end, with the last of its output."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from opencomputer.server.contracts.machine import Machine, Output, ProcessKind, ProcessSpec
from opencomputer.server.domain import naming
from opencomputer.server.services.sandboxes.commands import OutputTail


@dataclass(frozen=True)
class ScriptEnd:
    """How a script ended. `code` None: it is not known. `error_tail` is the end of its error output."""

    code: int | None
    error_tail: str


async def run_script(
    machine: Machine,
    script: str,
    *,
    timeout_seconds: float,
    tail_bytes: int,
    environment: Mapping[str, str] | None = None,
) -> ScriptEnd:
    """Run a script with bash as the sandbox's user. At the timeout it is killed. Raises MachineLost."""
    spec = ProcessSpec(
        naming.new_process_id(),
        ProcessKind.RUN,
        ("bash", "-c", script),
        environment=environment or {},
        timeout_seconds=timeout_seconds,
    )
    record = await machine.processes.spawn(spec)
    tail = OutputTail(tail_bytes)
    code = None if record.exit is None else record.exit.code
    async with machine.processes.attach(record.id) as attachment:
        async for event in attachment:
            if not isinstance(event, Output):
                code = event.code
                tail.add((event.error or "").encode())
            elif event.stream == 2:
                tail.add(event.data)
    return ScriptEnd(code, tail.value().decode(errors="replace"))
