"""Lists of texts that people give."""

from __future__ import annotations

from collections.abc import Iterable


def listed(values: Iterable[str], name: str) -> list[str]:
    """The texts as a list. Raises `TypeError` for one text, which is a sequence, too: of its letters."""
    if isinstance(values, str | bytes):
        raise TypeError(f"{name} must be a list of texts, not one text")
    return [*values]


def listed_if_given(values: Iterable[str] | None, name: str) -> list[str] | None:
    """The same, where None says that nothing was given."""
    return None if values is None else listed(values, name)
