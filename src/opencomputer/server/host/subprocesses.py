"""Running other programs: argument lists, capped output, a deadline, nothing inherited by accident."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

MAX_OUTPUT_BYTES = 256 * 1024


@dataclass(frozen=True)
class Completed:
    """A program that ended. A non-zero exit code is a result, not an exception."""

    exit_code: int
    output: str
    """Standard output and standard error together, in the order written, cut at a cap."""


class CommandTimedOut(Exception):
    """The program did not end before its deadline and was killed, with its process group."""


def run(
    argv: Sequence[str],
    *,
    deadline_seconds: float,
    stdin: bytes = b"",
    environment: Mapping[str, str] | None = None,
) -> Completed:
    """Run a program to its end and block meanwhile. Raises OSError when it cannot be started.

    It gets a session of its own, so that neither a Ctrl-C nor our end reaches it, and inherits
    no descriptor but its three.
    """
    process = subprocess.Popen(
        argv,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=dict(environment) if environment is not None else None,
        start_new_session=True,
    )
    with process:
        try:
            output, _ = process.communicate(stdin, timeout=deadline_seconds)
        except subprocess.TimeoutExpired:
            _kill_group(process.pid)
            raise CommandTimedOut(f"{argv[0]} took longer than {deadline_seconds} s") from None
    return Completed(process.returncode, output[:MAX_OUTPUT_BYTES].decode(errors="replace"))


async def run_async(argv: Sequence[str], *, deadline_seconds: float) -> Completed:
    """As `run` with no input, without blocking. Cancellation kills the program."""
    process = await asyncio.create_subprocess_exec(
        *argv,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        async with asyncio.timeout(deadline_seconds):
            output, _ = await process.communicate()
    except TimeoutError:
        raise CommandTimedOut(f"{argv[0]} took longer than {deadline_seconds} s") from None
    finally:
        if process.returncode is None:
            _kill_group(process.pid)
    return Completed(process.returncode or 0, output[:MAX_OUTPUT_BYTES].decode(errors="replace"))


def _kill_group(pid: int) -> None:
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
