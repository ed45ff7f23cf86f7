"""What is asked about usage, out of the query of a request."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, cast

from starlette.datastructures import QueryParams

from opencomputer.server.domain.errors import InvalidInput
from opencomputer.server.domain.metering import Meter, second_of
from opencomputer.server.domain.tags import is_tag_key
from opencomputer.server.domain.usage import Place, TagFilter, UsageQuestion, Window
from opencomputer.wire.ids import OrgId
from opencomputer.wire.usage import DEFAULT_USAGE_PAGE, MAX_USAGE_PAGE

_DAY = 86400
LONGEST_REPORT_DAYS = 90
LONGEST_SERIES_DAYS = 30
_LONGEST = LONGEST_REPORT_DAYS * _DAY
_REPORT_DAYS = 30
_SERIES_SECONDS = 3600

SANDBOX = "sandbox"
_TAG = "tag:"
SORTS: Mapping[str, Meter] = {"-memoryGbSeconds": Meter.MEMORY, "-diskOverageGbSeconds": Meter.DISK}
_DEFAULT_SORT = "-memoryGbSeconds"

_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_MOMENT = re.compile(r"\d{4}-\d{2}-\d{2}[Tt]\d{2}:\d{2}:\d{2}(\.\d{1,9})?([Zz]|[+-]\d{2}:\d{2})", re.ASCII)
_FILTER = re.compile(r"filter\[(.*)\]", re.DOTALL)
_LARGEST = 2**63
# What can be shown again, with a window before it.
_FIRST, _LAST = -_LONGEST, 253_402_300_799


@dataclass(frozen=True)
class _Cursor:
    """Where a page ended, of which window, and what the question was besides."""

    window: Window
    place: Place
    question: str


def series_window(given: QueryParams, now: datetime) -> Window:
    """The last hour, unless something else is asked for."""
    return _window(given, second_of(now), _SERIES_SECONDS, LONGEST_SERIES_DAYS)


def usage_question(given: QueryParams, org_id: OrgId, now: datetime) -> UsageQuestion:
    """The last thirty days, unless something else is asked for. Raises InvalidInput, which names what it is
    that cannot be. A cursor keeps the window of the page it came with."""
    group_by, filters = _group_by(given.get("groupBy", "")), _filters(given)
    sort = given.get("sort") or _DEFAULT_SORT
    if sort not in SORTS:
        raise InvalidInput(f"sort: must be {' or '.join(SORTS)}", field="sort")
    limit = _limit(given.get("limit", ""))
    cursor = _read(given.get("cursor", ""))
    if cursor is None:
        window = _window(given, second_of(now), _REPORT_DAYS * _DAY, LONGEST_REPORT_DAYS)
    else:
        window = cursor.window
    tag = None if group_by == SANDBOX else group_by.removeprefix(_TAG)
    place = None if cursor is None else cursor.place
    question = UsageQuestion(org_id, window, tag, SORTS[sort], limit, filters, place)
    if cursor is not None and (cursor.question != _digest(question) or not _same_window(given, window)):
        raise InvalidInput("cursor: belongs to another question", field="cursor")
    return question


def cursor_to(question: UsageQuestion, place: Place | None) -> str | None:
    """For the page that begins after a place."""
    if place is None:
        return None
    window = question.window
    parts = [window.begin, window.end, place.amount, place.name, _digest(question)]
    return base64.urlsafe_b64encode(json.dumps(parts).encode()).decode().rstrip("=")


def _read(text: str) -> _Cursor | None:
    if not text:
        return None
    wrong = InvalidInput("cursor: is none that this server made", field="cursor")
    try:
        parts: object = json.loads(base64.b64decode(text + "=" * (-len(text) % 4), b"-_", validate=True))
    except (binascii.Error, ValueError, RecursionError):
        raise wrong from None
    kinds = [type(each) for each in cast("list[object]", parts)] if isinstance(parts, list) else []
    if kinds != [int, int, int, str, str]:
        raise wrong
    begin, end, amount, name, question = cast("list[Any]", parts)
    if not (0 <= amount < _LARGEST and _FIRST <= begin < end <= min(_LAST, begin + _LONGEST)):
        raise wrong
    return _Cursor(Window(begin, end), Place(amount, name), question)


def _digest(question: UsageQuestion) -> str:
    """Of all that must be the same on each page."""
    filters = sorted((each.key, sorted(each.values)) for each in question.filters)
    text = json.dumps([question.tag, question.order, filters])
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _same_window(given: QueryParams, window: Window) -> bool:
    bounds = (("from", window.begin), ("to", window.end))
    return all(not (text := given.get(name)) or _second(text, name) == bound for name, bound in bounds)


def _window(given: QueryParams, now: int, seconds: int, most_days: int) -> Window:
    begin, end = given.get("from"), given.get("to")
    until = _second(end, "to") if end else now
    since = _second(begin, "from") if begin else until - seconds
    if since >= until:
        raise InvalidInput("from: must be before `to`, which is now unless it is given", field="from")
    if until - since > most_days * _DAY:
        raise InvalidInput(f"from: must be at most {most_days} days before `to`", field="from")
    return Window(since, until)


def _second(text: str, field: str) -> int:
    # A plus sign that nobody encoded arrives as a space.
    text = text.replace(" ", "+") if len(text) > len("2026-01-01") else text
    if _DATE.fullmatch(text) or _MOMENT.fullmatch(text):
        with suppress(ValueError):
            moment = datetime.fromisoformat(text.upper())
            second = second_of(moment if moment.tzinfo else moment.replace(tzinfo=UTC))
            if 0 <= second <= _LAST:
                return second
    message = "must be a date (2026-04-01) or an RFC 3339 time (2026-04-01T12:00:00Z), from 1970 on"
    raise InvalidInput(f"{field}: {message}", field=field)


def _group_by(text: str) -> str:
    if text == SANDBOX or (text.startswith(_TAG) and is_tag_key(text.removeprefix(_TAG))):
        return text
    raise InvalidInput("groupBy: must be `sandbox`, or `tag:` and the key of a tag", field="groupBy")


def _filters(given: QueryParams) -> tuple[TagFilter, ...]:
    found: dict[str, TagFilter] = {}
    for name, text in given.multi_items():
        match = _FILTER.fullmatch(name)
        if match is None:
            continue
        key = match[1].removeprefix(_TAG)
        if not match[1].startswith(_TAG) or not is_tag_key(key):
            raise InvalidInput("filter: must be filter[tag:KEY], with the key of a tag", field="filter")
        if key in found:
            raise InvalidInput(f"filter: {key} is there twice; put `,` between values", field="filter")
        found[key] = TagFilter(key, frozenset(text.split(",")))
    return tuple(found.values())


def _limit(text: str) -> int:
    if not text:
        return DEFAULT_USAGE_PAGE
    if not (text.isascii() and text.isdecimal() and len(text) <= 9 and 1 <= int(text) <= MAX_USAGE_PAGE):
        raise InvalidInput(f"limit: must be a whole number from 1 to {MAX_USAGE_PAGE}", field="limit")
    return int(text)
