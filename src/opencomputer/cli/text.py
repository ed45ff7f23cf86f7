"""Small pieces of text that commands share. No I/O here."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta

from opencomputer.cli.failures import CommandError

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def harmless(text: object) -> str:
    """Text from elsewhere with its control characters replaced, so that it cannot steer the terminal."""
    return _CONTROL.sub(" ", str(text))


def table(headers: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Columns padded to their widest cell and two spaces, without borders."""
    cells = [list(headers), *([harmless(cell) for cell in row] for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(headers))]
    padded = ("".join(map(_cell, row, widths)) for row in cells)
    return "\n".join(line.rstrip() for line in padded)


def _cell(content: str, width: int) -> str:
    return content.ljust(width + 2)


def details(pairs: Sequence[tuple[str, object]]) -> str:
    """One labelled value per line."""
    width = max(len(label) for label, _ in pairs) + 2
    return "\n".join(f"{label + ':':<{width}}{harmless(value)}" for label, value in pairs)


def more_lines(count: int) -> str:
    """What stands for lines that are not shown."""
    return f"… {count} more {'line' if count == 1 else 'lines'}"


def age(since: str, now: datetime) -> str:
    """The time since an RFC 3339 moment, such as `3h4m5s`; "-" when there is none."""
    try:
        moment = datetime.fromisoformat(since)
    except ValueError:
        return "-"
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return duration(now - moment)


def duration(span: timedelta) -> str:
    """Whole seconds, with minutes and hours where there are any."""
    total = max(0, int(span.total_seconds()))
    hours, minutes, seconds = total // 3600, total // 60 % 60, total % 60
    parts = [f"{hours}h"] if hours else []
    if hours or minutes:
        parts.append(f"{minutes}m")
    return "".join([*parts, f"{seconds}s"])


def size(count: int) -> str:
    """A number of bytes for people."""
    value = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024 or unit == "GiB":
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return ""


def listed(content: str) -> list[str]:
    """The parts between commas."""
    return [part.strip() for part in content.split(",")] if content.strip() else []


def assignments(texts: Iterable[str], option: str) -> dict[str, str]:
    """The map that repeated `K=V` or `K=V,K2=V2` options describe.

    A comma separates only where an assignment follows it, so that values may hold commas.
    """
    found: dict[str, str] = {}
    for text in texts:
        for part in re.split(r",(?=[A-Za-z_][A-Za-z0-9_.-]*=)", text):
            name, separator, value = part.partition("=")
            if not separator or not name:
                raise CommandError(f"{option} takes NAME=VALUE, not {part!r}")
            found[name] = value
    return found
