"""Doing once, before a machine is needed, what its first user will do: the second time is faster.

After a restore everything a process touches has to be fetched again, page by page and file by file.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence

from opencomputer.server.contracts.driver import Limits
from opencomputer.server.contracts.machine import Identity, Machine, ProcessKind, ProcessSpec
from opencomputer.server.domain import naming

Commands = Sequence[tuple[str, ...]]

_COMMAND_SECONDS = 30.0


def nobody(token: str, limits: Limits | None = None) -> Identity:
    """An identity for a machine that is no sandbox's; its guest goes on accepting `token`.

    With the limits it is told its size, which its first user then finds settled."""
    return Identity(
        sandbox_id="",
        hostname="sandbox",
        machine_id=secrets.token_hex(16),
        token=token,
        entropy=secrets.token_bytes(64),
        environment={},
        memory_bytes=limits.memory_bytes if limits else None,
        processors=limits.processors if limits else None,
    )


async def rehearse(machine: Machine, token: str, commands: Commands, limits: Limits) -> None:
    """Give the machine an identity nobody uses, without changing its `token`, and run commands in it.

    A command that fails is as good as one that works: the template may not have its program.
    """
    await machine.identify(nobody(token, limits))
    for argv in commands:
        spec = ProcessSpec(naming.new_process_id(), ProcessKind.RUN, argv, timeout_seconds=_COMMAND_SECONDS)
        record = await machine.processes.spawn(spec)
        async with machine.processes.attach(record.id) as attachment:
            async for _ in attachment:
                pass
