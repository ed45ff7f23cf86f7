"""A person at a terminal: a shell in tmux, on a server of its own, whose screen can be looked at."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType

DEADLINE_SECONDS = 60.0
_LOOK_SECONDS = 0.03
PROMPT = "you$ "
_ENDED = re.compile(r"ended with \d+\nyou\$")


class Tmux:
    """A context manager. `oc` is on the path of its shell."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        # Short, because it is a part of a socket's path; the folder makes it unique.
        self._name = f"oc{os.getpid()}"
        programs = folder / "bin"
        programs.mkdir()
        oc = programs / "oc"
        oc.write_text(f'#!/bin/sh\nexec {sys.executable} -m opencomputer.cli "$@"\n')
        oc.chmod(0o755)
        (folder / "shell").write_text(f"PS1='{PROMPT}'\n")
        self._environment = {
            "PATH": f"{programs}:{os.environ['PATH']}",
            "HOME": str(folder),
            "TMUX_TMPDIR": str(folder),
            "TERM": "xterm-256color",
            "LANG": "C.UTF-8",
            "ENV": str(folder / "shell"),
            "NO_COLOR": "1",
            **environment,
        }

    def __enter__(self) -> Tmux:
        self._tmux("-f", "/dev/null", "new-session", "-d", "-x", "100", "-y", "24", "/bin/sh")
        try:
            self._until_new()
        except BaseException:
            self._tmux("kill-server")
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._tmux("kill-server")

    def type(self, line: str) -> None:
        """Type a line and Enter."""
        self.press(line)
        self.keys("Enter")

    def press(self, letters: str) -> None:
        """Type letters, and nothing more."""
        self._tmux("send-keys", "-l", letters)

    def keys(self, *names: str) -> None:
        """Press keys by tmux's names, as `C-c`; one letter is itself."""
        self._tmux("send-keys", *names)

    def resize(self, columns: int, rows: int) -> None:
        self._tmux("resize-window", "-x", str(columns), "-y", str(rows))

    def clear(self) -> None:
        """Begin with an empty screen and a new shell of this machine; what ran in the old one is gone."""
        self._tmux("respawn-pane", "-k")
        self._until_new()

    def screen(self) -> str:
        """What is to be seen now; a line that is too long for the window is one line."""
        lines = self._tmux("capture-pane", "-p", "-J").splitlines()
        return "".join(f"{line.rstrip()}\n" for line in lines)

    def until(self, seen: str | Callable[[str], bool]) -> str:
        """Wait until the screen shows something, and return the screen."""
        deadline = time.monotonic() + DEADLINE_SECONDS
        while True:
            screen = self.screen()
            if seen in screen if isinstance(seen, str) else seen(screen):
                return screen
            assert time.monotonic() < deadline, f"{seen!r} does not come true of\n{screen}"
            time.sleep(_LOOK_SECONDS)

    def ask(self, command: str) -> None:
        """Type a command whose end `until_ended` waits for."""
        self.type(f"{command}; echo ended with $?")

    def until_ended(self) -> str:
        """Wait until the command has ended and its exit code is shown, and return the screen."""
        return self.until(lambda screen: _ENDED.search(screen) is not None)

    def _until_new(self) -> None:
        self.until(lambda screen: screen.strip() == PROMPT.strip())

    def _tmux(self, *arguments: str) -> str:
        command = ["tmux", "-L", self._name, *arguments]
        done = subprocess.run(
            command,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=DEADLINE_SECONDS,
            check=True,
        )
        return done.stdout
