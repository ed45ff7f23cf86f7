"""Lists in pages: limits that are clamped, cursors that fit one list only (agent-sessions.md section 2.6)."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from opencomputer.server.domain.errors import InvalidInput

_LONGEST_LIMIT = 18
"""In digits; more than any number of things there is."""
Filters = Mapping[str, str | None]


class Identified(Protocol):
    @property
    def id(self) -> str: ...


Item = TypeVar("Item", bound=Identified)


@dataclass(frozen=True)
class Bounds:
    """How long a page is when nobody says, and at most."""

    usual: int
    most: int


@dataclass(frozen=True)
class PageRequest:
    """`after_id`: the last of the page before; None: from the start. `filters` is what the list is of."""

    limit: int
    after_id: str | None
    filters: Filters


def limit_of(text: str | None, bounds: Bounds) -> int:
    """The length of a page. Raises InvalidInput for what is no number from 1 on."""
    if text is None:
        return bounds.usual
    if not (text.isascii() and text.isdigit()) or int(text[:_LONGEST_LIMIT]) < 1:
        raise InvalidInput("limit must be an integer from 1 on", field="limit")
    return min(int(text[:_LONGEST_LIMIT]), bounds.most)


def page_of(limit: str | None, cursor: str | None, bounds: Bounds, filters: Filters) -> PageRequest:
    """What `limit` and `cursor` of the query ask for.

    `filters` is everything that makes this list another than its neighbours, with its name. Raises
    InvalidInput for a cursor that is not of this list.
    """
    return PageRequest(
        limit_of(limit, bounds), None if cursor is None else _decoded(cursor, filters), filters
    )


async def page(
    request: PageRequest,
    row: Callable[[str], Awaitable[Item | None]],
    rows: Callable[[int, Item | None], Awaitable[Sequence[Item]]],
) -> tuple[Sequence[Item], str | None]:
    """One page and the cursor of the next; None at the end.

    `row` finds the row that the cursor names, `rows` gives up to so many that come after it.
    """
    last = None
    if request.after_id is not None and (last := await row(request.after_id)) is None:
        raise _not_of_this_list()
    found = await rows(request.limit + 1, last)
    if len(found) <= request.limit:
        return found, None
    shown = found[: request.limit]
    return shown, _encoded(shown[-1].id, request.filters)


def _encoded(id: str, filters: Filters) -> str:
    content = json.dumps([id, _mark(filters)], separators=(",", ":")).encode()
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def _decoded(cursor: str, filters: Filters) -> str:
    try:
        padded = cursor.encode("ascii") + b"=" * (-len(cursor) % 4)
        content: Any = json.loads(base64.b64decode(padded, altchars=b"-_", validate=True))
        id, mark = content
    except (ValueError, TypeError, RecursionError) as error:
        raise _not_of_this_list() from error
    if not isinstance(id, str) or mark != _mark(filters):
        raise _not_of_this_list()
    return id


def _mark(filters: Filters) -> str:
    content = json.dumps(
        {name: value for name, value in filters.items() if value is not None}, sort_keys=True
    )
    return hashlib.sha256(content.encode()).hexdigest()[:16]


def _not_of_this_list() -> InvalidInput:
    return InvalidInput("cursor must be the next_cursor of a page of this list", field="cursor")
