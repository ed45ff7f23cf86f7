"""Runs the base template's programs without a machine: in a copy-on-write chroot, on the host's network.

Everything is as in a sandbox but the isolation, so that the runner, the brains, the real SDK and the real
engines can be tested against a model on loopback.
"""

from __future__ import annotations

import json
import os
import queue
import shutil
import subprocess
import threading
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import opencomputer.inside

TEMPLATES_DIR = Path("/var/lib/opencomputer/templates")
ROOTFS = TEMPLATES_DIR / "base" / "current" / "rootfs"
RUNNER = "/usr/local/bin/claude-agent-wrapper"
HOME = "/home/sandbox"
PATIENCE_SECONDS = 60.0

# Runs as init of a process namespace of its own: when it goes, everything in it goes, and so do the mounts.
_ENTER = f"""
set -e
mount -t overlay overlay -o "lowerdir=$1,upperdir=$2/upper,workdir=$2/work" "$2/root"
mount -t proc proc "$2/root/proc"
mkdir -p "$2/root/.oc/lib/opencomputer_inside"
mount --bind "$3" "$2/root/.oc/lib/opencomputer_inside"
root=$2/root
shift 3
exec chroot --userspec=1000:1000 --groups= "$root" env -i --chdir={HOME} "$@"
"""

Event = Mapping[str, Any]


def why_no_template_agent() -> str | None:
    """None if the runner can be started like this here, else why it cannot."""
    return why_no_template_program(RUNNER)


def why_no_template_program(program: str) -> str | None:
    """None if this program of the template can be started like this here, else why it cannot."""
    if os.geteuid() != 0:
        return "needs root"
    if shutil.which("unshare") is None:
        return "needs unshare (util-linux)"
    return None if (ROOTFS / program[1:]).exists() else "needs the base template (oc template build)"


class AgentProcess:
    """A running runner: commands in, events out. What it writes to standard error is collected."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self.log = b""
        self._events: queue.Queue[Event | None] = queue.Queue()
        self._threads = [
            threading.Thread(target=self._read_events, args=(process.stdout,), daemon=True),
            threading.Thread(target=self._read_log, args=(process.stderr,), daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def write(self, kind: str, **fields: object) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"type": kind, **fields}).encode() + b"\n")
        self.process.stdin.flush()

    def until(self, *kinds: str) -> list[Event]:
        """The events up to and with the first of one of these kinds."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        seen: list[Event] = []
        while not seen or seen[-1]["type"] not in kinds:
            try:
                event = self._events.get(timeout=max(0, deadline - time.monotonic()))
            except queue.Empty:
                event = None
            if event is None:
                raise AssertionError(f"no {kinds} after {seen}; standard error: {self.log!r}")
            seen.append(event)
        return seen

    def turn(self, text: str, **fields: object) -> list[Event]:
        """Prompt, and return the events of the whole turn."""
        self.write("prompt", text=text, **fields)
        return self.until("turn_complete", "interrupted", "error")

    def end(self) -> int:
        """Close its input and return its exit code."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        code = self.process.wait(PATIENCE_SECONDS)
        for thread in self._threads:
            thread.join(PATIENCE_SECONDS)
        return code

    def _read_events(self, stream: IO[bytes]) -> None:
        for line in stream:
            self._events.put(json.loads(line))
        self._events.put(None)

    def _read_log(self, stream: IO[bytes]) -> None:
        for line in stream:
            self.log += line


def template_command(folder: Path, environment: Mapping[str, str], program: Sequence[str]) -> list[str]:
    """The command line of a program in the template. What it changes there stays in `folder`.

    It ends, with everything it started, when the process of this command line is killed.
    """
    for part in ("upper", "work", "root"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    inside = opencomputer.inside.__path__[0]
    variables = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": HOME, "LANG": "C.UTF-8", **environment}
    command = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--propagation", "private"]
    arguments = [str(ROOTFS.resolve()), str(folder), inside, *(f"{k}={v}" for k, v in variables.items())]
    return [*command, "sh", "-c", _ENTER, "sh", *arguments, *program]


@contextmanager
def template_agent(folder: Path, environment: Mapping[str, str]) -> Generator[AgentProcess]:
    """Start the runner. Its changes to the root file system stay in `folder`, also for the next start."""
    command = template_command(folder, environment, [RUNNER])
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        yield AgentProcess(process)
    finally:
        process.kill()
        process.wait()
