"""Where commands print: results on standard output, everything else on standard error.

`--quiet` leaves what a script wants: of lists the ids, one a line; of what was made or changed its id; of
everything else the result as ever. Notes and progress are not shown, warnings and errors are. JSON results
stay complete.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, TextIO, cast

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
# The fields that say what a result is about, the more telling ones first.
_IDS = ("id", "sessionID", "sandboxID", "name")
_ID_HEADERS = ("ID", "NAME", "PORT", "REV")
_UNESCAPED = re.compile(r"[\x7f-\x9f]")


class Output:
    """How one run of `oc` prints. With `json` standard output holds JSON and nothing else."""

    def __init__(self, *, json: bool = False, colour: bool = True, quiet: bool = False) -> None:
        self.json = json
        self.quiet = quiet
        self._colour = colour and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"

    def result(self, value: object, as_text: str) -> None:
        """Print a result: the value as JSON, or the text."""
        self.line(json_text(value, indent=2) if self.json else as_text)

    def table(
        self, value: object, headers: Sequence[str], rows: Iterable[Sequence[object]], none: str
    ) -> None:
        """Print a list: the value as JSON, or a table, or a line when it is empty."""
        printable = list(rows)
        column = _id_column(headers)
        if printable and column is None:
            self.result(value, text.table(headers, printable))
        else:
            shown = text.table(headers, printable) if printable else none
            self.identified(value, [row[column or 0] for row in printable], shown)

    def identified(self, value: object, ids: Iterable[object], as_text: str) -> None:
        """Print a result, or when it is to be quiet just the ids in it, one a line."""
        if self.quiet and not self.json:
            for one in ids:
                self.line(text.harmless(one))
        else:
            self.result(value, as_text)

    def success(self, value: object, message: str) -> None:
        """Print that something was done: the value as JSON, or the message with a mark."""
        self.identified(value, _ids(value), self.done(message))

    def done(self, message: str) -> str:
        """The message with a mark that says that something was done."""
        return f"{self.styled('✓', 'green')} {text.harmless(message)}"

    def line(self, line: str, *, flush: bool = False) -> None:
        """Print one line of a result as it is."""
        print(line, file=sys.stdout, flush=flush)

    def note(self, message: str) -> None:
        """Tell the person something that is no result."""
        if not self.quiet:
            print(text.harmless(message), file=sys.stderr, flush=True)

    def ask(self, message: str, address: str = "") -> None:
        """Tell the person what they have to do before this can go on, perhaps at an address."""
        shown = f"{text.harmless(message)} {self._link(address)}" if address else text.harmless(message)
        print(shown, file=sys.stderr, flush=True)

    def warn(self, message: str) -> None:
        """Tell the person about something that may be wrong."""
        label = self.styled("Warning:", "yellow", stream=sys.stderr)
        print(f"{label} {text.harmless(message)}", file=sys.stderr, flush=True)

    def failure(self, failure: Failure) -> None:
        """Print why the command failed."""
        if self.json:
            print(json_text({"error": failure.message, "code": failure.exit_code}), file=sys.stderr)
        else:
            label = self.styled("Error:", "red", stream=sys.stderr)
            print(f"{label} {text.harmless(failure.message)}", file=sys.stderr)
            if failure.hint and not self.quiet:
                hint = self.styled("Hint:", "dim", stream=sys.stderr)
                print(f"{hint} {text.harmless(failure.hint)}", file=sys.stderr)

    def styled(self, content: str, *styles: Style, stream: TextIO | None = None) -> str:
        """The content in these styles, where the stream shows colours."""
        if not (styles and content and self.shows_colour(stream)):
            return content
        return f"\x1b[{';'.join(_CODES[style] for style in styles)}m{content}\x1b[0m"

    @property
    def shows_progress(self) -> bool:
        """Whether somebody is watching standard error."""
        return sys.stderr.isatty() and not self.json and not self.quiet

    def shows_colour(self, stream: TextIO | None = None) -> bool:
        """Whether styles appear on the stream, standard output by default."""
        return self._colour and (stream or sys.stdout).isatty()

    def _link(self, address: str) -> str:
        # A link may lead elsewhere than it says: only encrypted ones, that say where.
        plain = text.harmless(address)
        if plain.startswith("https://") and self.shows_colour(sys.stderr):
            return f"\x1b]8;;{plain}\x1b\\{plain}\x1b]8;;\x1b\\"
        return plain


def _id_column(headers: Sequence[str]) -> int | None:
    """Which column says what a row is about; None where only whole rows say something."""
    if headers[0] in _ID_HEADERS:
        return 0
    return headers.index("PATH") if "PATH" in headers else None


def _ids(value: object) -> list[object]:
    """What a result is about; nothing where it does not say that."""
    if not isinstance(value, Mapping):
        return []
    known = cast("Mapping[str, object]", value)
    return [known[name] for name in _IDS if known.get(name)][:1]


def json_text(value: object, *, indent: int | None = None) -> str:
    """JSON that is safe to print on a terminal."""
    plain = json.dumps(value, indent=indent, ensure_ascii=False)
    return _UNESCAPED.sub(lambda found: f"\\u{ord(found.group()):04x}", plain)
