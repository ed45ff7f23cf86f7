"""Markdown tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Columns with nothing in them are left out; empty when there are no rows. No cell can break it."""
    cells = [tuple(row) for row in rows]
    if not cells:
        return ""
    used = [index for index in range(len(columns)) if any(row[index] for row in cells)]
    lines = [
        _line([row[index] for index in used]) for row in (tuple(columns), ("---",) * len(columns), *cells)
    ]
    return "\n".join([*lines, ""])


def code(text: str) -> str:
    """Text as code, also where it has a bar or a back quote in it."""
    if not text:
        return ""
    return f"`` {text} ``" if "`" in text else f"`{text}`"


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(" ".join(cell.split()).replace("|", "\\|") for cell in cells) + " |"
