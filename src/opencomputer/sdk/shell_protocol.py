"""How a command is put to a bash that reads from a pipe, and how its end is recognised; without any I/O.

A run is a few lines of script:

1. Duplicates of the shell's output are made at fixed high descriptors, once. The end marks go through them,
   so that a command which redirects the shell's own output (`exec >file`) cannot hide the end of itself.
2. The command is passed to `eval` as one quoted word. Whatever it leaves open (a quote, a here-document, a
   brace) ends with that word instead of swallowing the lines that follow. Its standard input is /dev/null,
   since the shell's own input is the script; and it does not see the duplicates, so that nothing it leaves
   behind can hold them open.
3. A mark goes to each output, the exit code with the one on standard error. Each carries a random token, so
   that no output can contain it by chance.
"""

from __future__ import annotations

import shlex
from typing import Final

_MARK_END: Final = b"__"
_OUT, _ERR = 198, 199
_SAVE_OUTPUT = f"{{ : >&{_OUT} && : >&{_ERR}; }} 2>/dev/null || exec {_OUT}>&1 {_ERR}>&2\n"

# What the command left open can leave bash's parser in disorder. After a quote without an end the first
# word of the next line is not known for a reserved one, which an empty line cures. After a "$(" without an
# end bash 5.2.15 has lost count of its open quotes and would write outside its memory at the next one; any
# syntax error makes it start to count afresh. No quote may come before that.
_RECOVER = "\n{ __oc_status=$?; command eval \\) || :; } 2>/dev/null\n"


def script(command: str, token: str) -> str:
    """The lines that make bash run the command and report its end. Raises ValueError for NUL in it."""
    if "\0" in command:
        raise ValueError("a shell command cannot contain NUL")
    run = f"{{ eval {shlex.quote(command + chr(10))}; }} </dev/null {_OUT}>&- {_ERR}>&-\n"
    marks = (
        f"{{ builtin printf '__OC_%s_EXIT_%d__' {token} \"$__oc_status\" >&{_ERR}; "
        f"builtin printf '__OC_%s_DONE__' {token} >&{_OUT}; }} 2>/dev/null\n"
    )
    return _SAVE_OUTPUT + run + _RECOVER + marks


class MarkScanner:
    """Finds a mark in a stream of pieces, holding back no more than what could be its beginning."""

    def __init__(self, mark: bytes) -> None:
        self._mark = mark
        self._pending = b""
        self.after: bytes | None = None
        """What followed the mark, once it was found."""

    def feed(self, chunk: bytes) -> bytes:
        """Take the next piece and return what of the stream is certainly before the mark."""
        if self.after is not None:
            self.after += chunk
            return b""
        data = self._pending + chunk
        before, mark, after = data.partition(self._mark)
        if mark:
            self._pending, self.after = b"", after
            return before
        held = _held_back(data, self._mark)
        self._pending = data[len(data) - held :]
        return data[: len(data) - held]


class RunOutput:
    """The output of one run, without its marks. It is complete when the marks of both streams were seen."""

    def __init__(self, token: str) -> None:
        self._stdout_scanner = MarkScanner(f"__OC_{token}_DONE__".encode())
        self._stderr_scanner = MarkScanner(f"__OC_{token}_EXIT_".encode())
        self._stdout: list[bytes] = []
        self._stderr: list[bytes] = []

    def feed_stdout(self, chunk: bytes) -> bytes:
        """Take a piece of standard output and return what of it the command wrote for certain."""
        return _kept(self._stdout, self._stdout_scanner.feed(chunk))

    def feed_stderr(self, chunk: bytes) -> bytes:
        """Take a piece of standard error and return what of it the command wrote for certain."""
        return _kept(self._stderr, self._stderr_scanner.feed(chunk))

    @property
    def exit_code(self) -> int | None:
        """The command's exit code once the run is complete."""
        if self._stdout_scanner.after is None or self._stderr_scanner.after is None:
            return None
        digits, end, _ = self._stderr_scanner.after.partition(_MARK_END)
        return int(digits) if end else None

    @property
    def stdout(self) -> str:
        """All standard output so far, as text."""
        return b"".join(self._stdout).decode("utf-8", errors="replace")

    @property
    def stderr(self) -> str:
        """All standard error so far, as text."""
        return b"".join(self._stderr).decode("utf-8", errors="replace")


def _kept(parts: list[bytes], data: bytes) -> bytes:
    if data:
        parts.append(data)
    return data


def _held_back(data: bytes, mark: bytes) -> int:
    for length in range(min(len(mark) - 1, len(data)), 0, -1):
        if data.endswith(mark[:length]):
            return length
    return 0
