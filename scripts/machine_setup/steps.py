"""One step of the set-up after the other, with what it does, how long it took and how to mend it."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

_REDRAW_SECONDS = 0.2
_LINES_KEPT = 15
_SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"


class StepFailed(Exception):
    """A step cannot be done. `fix` says what a person can do about it."""

    def __init__(self, message: str, fix: str, output: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.fix = fix
        self.output = output


@dataclass(frozen=True)
class Step:
    """A named piece of work. `work` returns what to show behind its name when it is done."""

    name: str
    work: Callable[[Display], str]


@dataclass
class Display:
    """Shows progress: one changing line on a terminal, a few plain lines anywhere else."""

    out: TextIO = field(default_factory=lambda: sys.stdout)
    log: TextIO | None = None
    clock: Callable[[], float] = time.monotonic
    _name: str = ""
    _detail: str = ""
    _started: float = 0.0

    @property
    def live(self) -> bool:
        return self.out.isatty()

    def begin(self, name: str) -> None:
        self._name, self._detail, self._started = name, "", self.clock()
        self.draw()

    def detail(self, text: str, *, passing: bool = False) -> None:
        """Say what is going on inside the present step. What is `passing` only a terminal shows."""
        if text == self._detail:
            return
        self._detail = text
        if self.live:
            self.draw()
        elif not passing:
            self.out.write(f"    {self._name}: {text}\n")
            self.out.flush()

    def draw(self) -> None:
        if not self.live:
            return
        elapsed = self.clock() - self._started
        mark = _SPINNER[int(elapsed / _REDRAW_SECONDS) % len(_SPINNER)]
        text = f" {mark} {self._name:<18} {elapsed:4.0f} s  {self._detail}"
        width = os.get_terminal_size(self.out.fileno()).columns
        self.out.write(f"\r\x1b[2K{text[: width - 1]}")
        self.out.flush()

    def end(self, mark: str, text: str) -> None:
        elapsed = self.clock() - self._started
        start = "\r\x1b[2K" if self.live else ""
        self.out.write(f"{start} {mark} {self._name:<18} {text}  ({elapsed:.1f} s)\n")
        self.out.flush()

    def write(self, text: str) -> None:
        self.out.write(text + "\n")
        self.out.flush()

    def record(self, line: str) -> None:
        """Keep a line of some program's output in the log."""
        if self.log is not None:
            self.log.write(line + "\n")


def run_steps(steps: Sequence[Step], display: Display) -> bool:
    """Do the steps in order and stop at the first that fails. Returns whether all were done."""
    for step in steps:
        display.begin(step.name)
        try:
            result = step.work(display)
        except StepFailed as failure:
            display.end("✗", failure.message)
            for line in failure.output.splitlines()[-_LINES_KEPT:]:
                display.write(f"     | {line}")
            display.write(f"   How to fix it: {failure.fix}")
            return False
        display.end("✓", result)
    return True


def run_program(
    arguments: Sequence[str],
    display: Display,
    *,
    fix: str,
    environment: Mapping[str, str] | None = None,
    show: Callable[[str], None] = lambda line: None,
    folder: Path | None = None,
) -> list[str]:
    """Run a program to its end, keeping the display alive. Returns its lines; raises StepFailed.

    `show` is called with each line. `environment` is added to ours.
    """
    display.record("$ " + " ".join(arguments))
    try:
        process = subprocess.Popen(
            arguments,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(environment or {})},
            cwd=folder,
            start_new_session=True,
        )
    except OSError as error:
        raise StepFailed(f"`{arguments[0]}` cannot be started: {error.strerror}", fix) from error
    lines: list[str] = []
    try:
        for line in _lines(process, display):
            display.record(line)
            lines.append(line)
            show(line)
        status = process.wait()
    except BaseException:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait()
        raise
    if status != 0:
        tail = "\n".join(deque(lines, _LINES_KEPT))
        raise StepFailed(f"`{' '.join(arguments[:3])}` failed with status {status}", fix, tail)
    return lines


def _lines(process: subprocess.Popen[bytes], display: Display) -> Iterator[str]:
    """The lines of the program's output as they come; the display is redrawn while there are none."""
    assert process.stdout is not None
    descriptor = process.stdout.fileno()
    pending = b""
    while True:
        ready, _, _ = select.select([descriptor], [], [], _REDRAW_SECONDS)
        if not ready:
            display.draw()
            continue
        chunk = os.read(descriptor, 65536)
        if not chunk:
            break
        *complete, pending = (pending + chunk).split(b"\n")
        for line in complete:
            yield line.decode(errors="replace").rstrip()
    if pending:
        yield pending.decode(errors="replace").rstrip()
