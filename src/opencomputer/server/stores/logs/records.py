"""How lines of a log are written in a file: a JSON object each, with short keys."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from opencomputer.server.domain.log_lines import LogLine, LogSource

_CODES = {
    LogSource.VAR_LOG: "v",
    LogSource.EXEC_STDOUT: "o",
    LogSource.EXEC_STDERR: "e",
    LogSource.AGENT: "a",
}
_SOURCES = {code: source for source, code in _CODES.items()}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


def positions_record(positions: Mapping[str, int | None]) -> bytes:
    return _encoded({"p": dict(positions)})


def command_record(exec_id: str, command: tuple[str, ...]) -> bytes:
    """Once a file, ahead of the first line that belongs to it."""
    return _encoded({"c": exec_id, "v": list(command)})


def line_record(line: LogLine) -> bytes:
    fields: dict[str, object] = {
        "n": line.number,
        "t": (line.at - _EPOCH) // _MILLISECOND,
        "s": _CODES[line.source],
        "l": line.line,
    }
    optional = {"f": line.path, "x": line.exec_id, "e": line.exit_code, "d": line.lost or None}
    fields |= {key: value for key, value in optional.items() if value is not None}
    return _encoded(fields)


def _encoded(fields: Mapping[str, object]) -> bytes:
    return json.dumps(fields, separators=(",", ":")).encode() + b"\n"


@dataclass
class Contents:
    """What reading a file has come to. Iterate it: the positions are right once that is over."""

    content: bytes
    positions: dict[str, int] = field(default_factory=dict[str, int])
    commands: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])

    def lines(self) -> Iterator[LogLine]:
        for record in self.content.split(b"\n"):
            try:
                line = self._read(json.loads(record)) if record else None
            except (ValueError, TypeError, KeyError, AttributeError, OverflowError):
                continue  # the host lost power while it was written
            if line is not None:
                yield line

    def _read(self, fields: dict[str, Any]) -> LogLine | None:
        if "p" in fields:
            for key, position in fields["p"].items():
                if position is None:
                    self.positions.pop(key, None)
                else:
                    self.positions[key] = int(position)
            return None
        if "c" in fields:
            self.commands[fields["c"]] = tuple(fields["v"])
            return None
        return LogLine(
            at=_EPOCH + timedelta(milliseconds=fields["t"]),
            source=_SOURCES[fields["s"]],
            line=fields["l"],
            number=fields["n"],
            path=fields.get("f"),
            exec_id=fields.get("x"),
            command=self.commands.get(fields.get("x", ""), ()),
            exit_code=fields.get("e"),
            lost=fields.get("d", 0),
        )
