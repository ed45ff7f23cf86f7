"""The log of a sandbox: what its programs write, cut into lines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

MAX_LINE_BYTES = 8 << 10
"""A longer line is kept in pieces."""
MAX_COMMAND_BYTES = 2 << 10


class LogSource(StrEnum):
    """Where a line comes from."""

    VAR_LOG = "var_log"
    EXEC_STDOUT = "exec_stdout"
    EXEC_STDERR = "exec_stderr"
    AGENT = "agent"


@dataclass(frozen=True)
class LogLine:
    """One line. `number` counts the lines of a sandbox; 0: it is not written down yet.

    The last line of a command is empty and has its `exit_code`. `lost`: how many lines before this one could
    not be kept, at least.
    """

    at: datetime
    source: LogSource
    line: str
    number: int = 0
    path: str | None = None
    exec_id: str | None = None
    command: tuple[str, ...] = ()
    exit_code: int | None = None
    lost: int = 0


@dataclass(frozen=True)
class LogQuery:
    """Which lines. Of those up to now, the newest `limit`; `after` is the number of one seen before."""

    since: datetime | None = None
    until: datetime | None = None
    text: str = ""
    sources: frozenset[LogSource] = frozenset(LogSource)
    limit: int = 1000
    after: int = 0

    def wants(self, line: LogLine) -> bool:
        return (
            line.number > self.after
            and line.source in self.sources
            and (self.since is None or line.at >= self.since)
            and (self.until is None or line.at <= self.until)
            and self.text in line.line
        )


def bounded_command(argv: Sequence[str]) -> tuple[str, ...]:
    """As much of a command as is kept with each of its lines."""
    kept: list[str] = []
    left = MAX_COMMAND_BYTES
    for word in argv:
        if len(word) > left:
            return (*kept, f"{word[:left]}…")
        kept.append(word)
        left -= len(word) + 1
    return tuple(kept)


class LineCutter:
    """Cuts one stream of bytes into lines of text. Holds no more than the longest line."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, data: bytes) -> list[str]:
        """The lines that `data` completes."""
        if b"\n" not in data and len(self._rest) + len(data) < MAX_LINE_BYTES:
            self._rest += data
            return []
        *complete, rest = (bytes(self._rest) + data).split(b"\n")
        lines = [piece for line in complete for piece in _pieces(line)]
        *longer, rest = _pieces(rest)
        self._rest = bytearray(rest)
        return [_text(line) for line in (*lines, *longer)]

    def skip(self, data: bytes) -> int:
        """Pass over `data` and the line it is in the middle of. Returns how many lines that were."""
        self._rest.clear()
        return max(1, data.count(b"\n"))

    def rest(self) -> list[str]:
        """What came after the last line's end, if anything did."""
        rest, self._rest = bytes(self._rest), bytearray()
        return [_text(rest)] if rest else []

    @property
    def pending(self) -> int:
        """How many bytes wait for the end of their line."""
        return len(self._rest)


def _pieces(line: bytes) -> list[bytes]:
    if len(line) <= MAX_LINE_BYTES:
        return [line]
    return [line[start : start + MAX_LINE_BYTES] for start in range(0, len(line), MAX_LINE_BYTES)]


def _text(line: bytes) -> str:
    return line.removesuffix(b"\r").decode("utf-8", errors="replace")
