"""Where commands print: results on standard output, everything else on standard error."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterable, Sequence
from typing import Literal, TextIO

from opencomputer.cli import text
from opencomputer.cli.failures import Failure

Style = Literal["bold", "dim", "red", "green", "yellow", "cyan"]

_CODES: dict[Style, str] = {
    "bold": "1",
    "dim": "2",
    "red": "31",
    "green": "32",
    "yellow": "33",
    "cyan": "36",
}
_UNESCAPED = re.compile(r"[\x7f-\x9f]")


class Output:
    """How one run of `oc` prints. With `json` standard output holds JSON and nothing else."""

    def __init__(self, *, json: bool = False, colour: bool = True) -> None:
        self.json = json
        self._colour = colour and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"

    def result(self, value: object, as_text: str) -> None:
        """Print a result: the value as JSON, or the text."""
        self.line(json_text(value, indent=2) if self.json else as_text)

    def table(
        self, value: object, headers: Sequence[str], rows: Iterable[Sequence[object]], none: str
    ) -> None:
        """Print a list: the value as JSON, or a table, or a line when it is empty."""
        printable = list(rows)
        self.result(value, text.table(headers, printable) if printable else none)

    def identified(self, value: object, ids: Sequence[str], as_text: str, *, quiet: bool) -> None:
        """Print a result, or with `quiet` just the ids in it, one a line."""
        if quiet and not self.json:
            for one in ids:
                self.line(text.harmless(one))
        else:
            self.result(value, as_text)

    def success(self, value: object, message: str) -> None:
        """Print that something was done: the value as JSON, or the message with a mark."""
        self.result(value, self.done(message))

    def done(self, message: str) -> str:
        """The message with a mark that says that something was done."""
        return f"{self.styled('✓', 'green')} {text.harmless(message)}"

    def line(self, line: str, *, flush: bool = False) -> None:
        """Print one line of a result as it is."""
        print(line, file=sys.stdout, flush=flush)

    def note(self, message: str) -> None:
        """Tell the person something that is no result."""
        print(text.harmless(message), file=sys.stderr, flush=True)

    def failure(self, failure: Failure) -> None:
        """Print why the command failed."""
        if self.json:
            print(json_text({"error": failure.message, "code": failure.exit_code}), file=sys.stderr)
        else:
            label = self.styled("Error:", "red", stream=sys.stderr)
            print(f"{label} {text.harmless(failure.message)}", file=sys.stderr)

    def styled(self, content: str, *styles: Style, stream: TextIO | None = None) -> str:
        """The content in these styles, where the stream shows colours."""
        if not (styles and content and self.shows_colour(stream)):
            return content
        return f"\x1b[{';'.join(_CODES[style] for style in styles)}m{content}\x1b[0m"

    @property
    def shows_progress(self) -> bool:
        """Whether somebody is watching standard error."""
        return sys.stderr.isatty() and not self.json

    def shows_colour(self, stream: TextIO | None = None) -> bool:
        """Whether styles appear on the stream, standard output by default."""
        return self._colour and (stream or sys.stdout).isatty()


def json_text(value: object, *, indent: int | None = None) -> str:
    """JSON that is safe to print on a terminal."""
    plain = json.dumps(value, indent=indent, ensure_ascii=False)
    return _UNESCAPED.sub(lambda found: f"\\u{ord(found.group()):04x}", plain)
