"""Reading an engine's native messages, which come from a machine: whatever has another type is not there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

MAX_COUNT = 1 << 40


def words(value: object) -> str:
    """A text that any database takes: without zero characters and halves of characters."""
    if not isinstance(value, str):
        return ""
    return value.encode("utf-8", "replace").decode().replace("\0", "\ufffd")


def members(value: object) -> Mapping[str, Any]:
    """The members of an object."""
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else dict[str, Any]()


def items(value: object) -> Sequence[Mapping[str, Any]]:
    """The objects in an array."""
    if not isinstance(value, list):
        return ()
    return [cast("Mapping[str, Any]", each) for each in cast("list[object]", value) if isinstance(each, dict)]


def texts(value: object) -> Sequence[str]:
    """The texts in an array."""
    if not isinstance(value, list):
        return ()
    return [words(each) for each in cast("list[object]", value) if isinstance(each, str)]


def count(value: object) -> int:
    """A number of things."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < MAX_COUNT else 0
