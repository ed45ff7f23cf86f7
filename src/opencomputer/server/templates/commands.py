"""Running the external programs of a build: every line is passed on, and nothing outlives the build."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress

from opencomputer.server.domain.errors import OpenComputerError

Progress = Callable[[str], None]
"""Receives one line of text at a time, without its line break. `> ` in front marks the start of a phase."""

Objection = Callable[[], str | None]
"""Why a running program has to be stopped, or None while it may go on."""

ALONE = (
    # Killed when the thread that waits for it ends, so a build never goes on without its builder.
    "setpriv", "--pdeathsig=KILL",
    "unshare",
    # The host never sees what is mounted in the new root, so nothing can stay mounted there.
    "--mount", "--propagation=private",
    # All processes end with the first one, and that one with `unshare`.
    "--pid", "--fork", "--kill-child",
)  # fmt: skip
"""In front of every program of a build that mounts something or starts others."""

_LINES_KEPT = 30
_NOT_FOUND = 127
_SECONDS_TO_END = 10
_SECONDS_BETWEEN_LOOKS = 0.5
_REST = 3
"""Looking takes at most a quarter of the time."""


class BuildFailed(OpenComputerError):
    """The template could not be built."""

    code = "template_build_failed"


def run(
    arguments: Sequence[str],
    *,
    environment: Mapping[str, str],
    progress: Progress,
    keep_open: Sequence[int] = (),
    objection: Objection = lambda: None,
) -> None:
    """Run a program to its end and pass its output on, line by line.

    Raises BuildFailed with the last lines of output when it fails or cannot be started. The descriptors in
    `keep_open` stay open in the program, so that a lock is held until the last process of a build is gone.
    `objection` is asked now and then, by another thread, and once at the end; what it says is the failure.
    """
    program = _program(arguments)
    process = _start(arguments, environment, keep_open)
    last_lines: deque[str] = deque(maxlen=_LINES_KEPT)
    assert process.stdout is not None
    try:
        with _watched(process, objection) as reasons:
            for line in process.stdout:
                last_lines.append(line.rstrip())
                progress(line.rstrip())
            status = process.wait()
    finally:
        _end(process, gently=program == arguments[0])
    if reason := next(iter(reasons), None) or objection():
        raise BuildFailed(reason)
    if status != 0:
        output = "\n".join(last_lines)
        if status == _NOT_FOUND and shutil.which(program) is None:
            raise _not_installed(program)
        raise BuildFailed(f"`{program}` failed with status {status}:\n{output}")


def _start(
    arguments: Sequence[str], environment: Mapping[str, str], keep_open: Sequence[int]
) -> subprocess.Popen[str]:
    try:
        return subprocess.Popen(
            arguments,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
            # What is built must be readable for the users of machines, whatever the operator's habits are.
            umask=0o022,
            pass_fds=tuple(keep_open),
        )
    except FileNotFoundError as error:
        raise _not_installed(arguments[0]) from error


def _program(arguments: Sequence[str]) -> str:
    """What is run in the end, without what stands in front to keep it alone."""
    rest = arguments[len(ALONE) :] if tuple(arguments[: len(ALONE)]) == ALONE else arguments
    return next((argument for argument in rest if not argument.startswith("-")), arguments[0])


def _not_installed(program: str) -> BuildFailed:
    return BuildFailed(f"`{program}` is not installed; `make setup` installs it.")


@contextmanager
def _watched(process: subprocess.Popen[str], objection: Objection) -> Generator[list[str]]:
    """Kill the process group when there is an objection; the list holds it then."""
    reasons: list[str] = []
    ended = threading.Event()

    def watch() -> None:
        pause = _SECONDS_BETWEEN_LOOKS
        while not ended.wait(pause):
            began = time.monotonic()
            reason = objection()
            pause = max(_SECONDS_BETWEEN_LOOKS, _REST * (time.monotonic() - began))
            if reason is not None and not ended.is_set():
                reasons.append(reason)
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                return

    watcher = threading.Thread(target=watch, name=f"watch-{process.pid}")
    watcher.start()
    try:
        yield reasons
    finally:
        ended.set()
        watcher.join()


def _end(process: subprocess.Popen[str], *, gently: bool) -> None:
    """End the whole process group if it still runs; an interrupted build must not go on in the background.

    What runs alone leaves nothing that it would have to tidy up, and would not hear a polite request.
    """
    assert process.stdout is not None
    if process.poll() is None:
        if gently:
            os.killpg(process.pid, signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                process.wait(_SECONDS_TO_END)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        # The end comes when the last process is gone: only then nobody writes to the draft any more.
        process.stdout.read()
    process.stdout.close()
