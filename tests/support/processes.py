"""Running programs in a machine under test, in few words."""

from __future__ import annotations

import asyncio
import secrets
from dataclasses import dataclass, replace

from opencomputer.server.contracts.machine import (
    Attachment,
    ExitStatus,
    Machine,
    Output,
    ProcessKind,
    ProcessSpec,
)


@dataclass(frozen=True)
class Finished:
    """What a process has written and how it ended."""

    exit: ExitStatus
    stdout: bytes
    stderr: bytes


def command(*argv: str) -> ProcessSpec:
    return ProcessSpec(id=secrets.token_hex(4), kind=ProcessKind.RUN, argv=argv)


def shell(script: str) -> ProcessSpec:
    return command("/bin/sh", "-c", script)


async def finish(attachment: Attachment, *, seconds: float = 80) -> Finished:
    """Read to the end, which must come within `seconds`."""
    outputs: dict[int, list[bytes]] = {1: [], 2: []}
    async with asyncio.timeout(seconds):
        async for item in attachment:
            if isinstance(item, Output):
                outputs[item.stream].append(item.data)
            else:
                return Finished(item, b"".join(outputs[1]), b"".join(outputs[2]))
    raise AssertionError("the attachment ended without an exit")


async def run(machine: Machine, spec: ProcessSpec) -> Finished:
    """Start, read everything, wait for the end."""
    await machine.processes.spawn(spec)
    async with machine.processes.attach(spec.id) as attachment:
        return await finish(attachment)


async def read_until(attachment: Attachment, wanted: bytes) -> bytes:
    """Everything read until `wanted` has come."""
    seen = b""
    try:
        async with asyncio.timeout(60):
            async for item in attachment:
                if not isinstance(item, Output):
                    raise AssertionError(f"ended with {item} before {wanted!r} came: {seen!r}")
                seen += item.data
                if wanted in seen:
                    return seen
    except TimeoutError:
        raise AssertionError(f"{wanted!r} did not come: {seen!r}") from None
    raise AssertionError("the attachment ended early")


def with_stdin(spec: ProcessSpec) -> ProcessSpec:
    return replace(spec, stdin=True)
