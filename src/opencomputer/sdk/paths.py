"""Paths of the API, made of ids and names that people give."""

from __future__ import annotations

from urllib.parse import quote

_NAMES_NOTHING = (None, "", ".", "..")


class NamelessError(ValueError):
    """Where an id or a name belongs there is none, as when a variable that should hold one is empty."""

    def __init__(self, given: object) -> None:
        super().__init__(f"{given!r} is no id and no name")


def path_of(*parts: str | int) -> str:
    """A path of these parts, none of which can break out of it. Raises `NamelessError` for an empty one."""
    return "".join(f"/{_encoded(part)}" for part in parts)


def _encoded(part: str | int) -> str:
    # A dot or two would lead to another part of the API, and nothing at all to the list of all things.
    if part in _NAMES_NOTHING:
        raise NamelessError(part)
    return quote(str(part), safe="")
