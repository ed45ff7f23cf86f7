"""The state of a brain, carried from one machine to the next.

It is packed and unpacked inside of machines, by programs that may do no more than the brain itself: for the
node it is nothing but bytes, however it was made.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import suppress

from opencomputer.server.contracts.machine import (
    ExitStatus,
    Machine,
    Output,
    ProcessKind,
    ProcessSpec,
)
from opencomputer.server.contracts.runtimes import STATE_FOLDER, BrainFault
from opencomputer.server.domain import naming
from opencomputer.server.domain.errors import FileMissing, GuestFault, OpenComputerError

MAX_STATE_BYTES = 64 << 20
"""Of one state, packed."""

ARCHIVE = "/home/sandbox/.oc/state.tar.gz"

_SECONDS = 60.0
_PIECE = 1 << 20
_NOTHING = 3

# Files that are being written count as they are at that moment: the brain is quiet when this runs.
_PACK = f"""
cd {STATE_FOLDER} 2>/dev/null && test -n "$(ls -A)" || exit {_NOTHING}
tar --create --gzip --warning=no-file-changed --file={ARCHIVE} . || test $? = 1
"""
_UNPACK = f"""
rm -rf {STATE_FOLDER} && mkdir -p {STATE_FOLDER} && cd {STATE_FOLDER} || exit 1
tar --extract --gzip --no-same-owner --file={ARCHIVE} || exit 1
rm -f {ARCHIVE}
"""


class StateTooLarge(OpenComputerError):
    """The agent's engine keeps more state than can be saved."""

    code = "state_too_large"


async def pack(machine: Machine) -> bytes | None:
    """The state of the machine's brain; None when it has none.

    Raises StateTooLarge, BrainFault (it cannot be packed), MachineLost.
    """
    code = await _run(machine, _PACK)
    if code == _NOTHING:
        return None
    if code != 0:
        raise BrainFault(f"the state of the agent's engine cannot be packed (exit code {code})")
    try:
        return await _read(machine)
    except FileMissing as error:
        raise BrainFault("the packed state of the agent's engine is gone") from error
    finally:
        with suppress(OpenComputerError):
            await machine.files.remove(ARCHIVE)


async def unpack(machine: Machine, state: bytes) -> None:
    """Put a state in the place of what the machine has. Raises BrainFault, MachineLost."""
    await machine.files.write(ARCHIVE, _pieces(state), size_hint=len(state))
    code = await _run(machine, _UNPACK)
    if code != 0:
        raise BrainFault(f"the kept state of the agent's engine cannot be unpacked (exit code {code})")


async def _read(machine: Machine) -> bytes:
    content = bytearray()
    async with machine.files.read(ARCHIVE) as file:
        async for chunk in file.chunks:
            content += chunk
            if len(content) > MAX_STATE_BYTES:
                raise StateTooLarge
    return bytes(content)


async def _run(machine: Machine, script: str) -> int:
    spec = ProcessSpec(
        naming.new_process_id(), ProcessKind.RUN, ("/bin/sh", "-c", script), timeout_seconds=_SECONDS
    )
    record = await machine.processes.spawn(spec)
    async with machine.processes.attach(record.id) as attachment:
        async for event in attachment:
            if isinstance(event, ExitStatus):
                return 1 if event.code is None else event.code
            assert isinstance(event, Output)
    raise GuestFault


async def _pieces(content: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(content), _PIECE):
        yield content[start : start + _PIECE]
