"""Running a command line in a machine, for tests that look at it from inside."""

from __future__ import annotations

import asyncio
import secrets
import uuid
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, Literal

from opencomputer.server.clock import SystemClock
from opencomputer.server.contracts.driver import MachineSpec
from opencomputer.server.contracts.machine import ExitStatus, Identity, Machine, ProcessKind, ProcessSpec
from opencomputer.server.machines.launcher import Launcher
from tests.support.driver_harness import TOKEN, DriverHarness


@asynccontextmanager
async def open_machine(harness: DriverHarness, spec: MachineSpec | None = None) -> AsyncGenerator[Machine]:
    """A machine with its guest connected, stopped afterwards. One that was saved is told who it is."""
    spec = spec or harness.spec()
    launcher = Launcher(harness.driver, SystemClock())
    machine = await launcher.start(spec, guest_token=TOKEN)
    try:
        if spec.memory_image is not None:
            await machine.identify(new_identity(token=TOKEN))
        yield machine
    finally:
        await machine.stop()


def new_identity(**changes: Any) -> Identity:
    """Who no other machine is."""
    name = secrets.token_hex(4)
    plain = Identity(
        sandbox_id=f"sb-{name}",
        hostname=f"host-{name}",
        machine_id=secrets.token_hex(16),
        token=secrets.token_hex(16),
        entropy=secrets.token_bytes(32),
        environment={"OPENCOMPUTER_SANDBOX_ID": f"sb-{name}"},
        boot_id=str(uuid.uuid4()),
        generation=1,
        copied=True,
    )
    return replace(plain, **changes)


async def shell(
    machine: Machine, script: str, *, user: Literal["sandbox", "root"] = "root", seconds: float = 30
) -> tuple[int | None, str]:
    """Exit code and everything printed, both streams."""
    spec = ProcessSpec(secrets.token_hex(4), ProcessKind.RUN, ("/bin/sh", "-c", script), user=user)
    async with asyncio.timeout(seconds):
        record = await machine.processes.spawn(spec)
        printed = b""
        async with machine.processes.attach(record.id) as attachment:
            async for item in attachment:
                if isinstance(item, ExitStatus):
                    return item.code, printed.decode(errors="replace")
                printed += item.data
    raise AssertionError("the process had no exit")


async def output(machine: Machine, script: str, *, user: Literal["sandbox", "root"] = "root") -> str:
    """What a command that succeeds prints."""
    code, printed = await shell(machine, script, user=user)
    assert code == 0, (code, printed)
    return printed.strip()
