"""Bodies of requests: what was not given is left out, what is None is sent as null."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Final, cast

from opencomputer.sdk.answers import JsonObject


class NotGiven(Enum):
    """The type of `NOT_GIVEN`: this stays as it is, which is something else than None."""

    NOT_GIVEN = "not given"

    def __repr__(self) -> str:
        return "NOT_GIVEN"


NOT_GIVEN: Final = NotGiven.NOT_GIVEN


def given(**members: object) -> JsonObject:
    """The members that were given; None counts as given."""
    return {name: value for name, value in members.items() if value is not NOT_GIVEN}


def set_members(**members: object) -> JsonObject:
    """The members that are not None."""
    return {name: value for name, value in members.items() if value is not None}


def new_key() -> str:
    """An idempotency key that nobody else uses."""
    return f"oc-py-{secrets.token_hex(16)}"


def plain(body: object) -> object:
    """The body as JSON can be made of it: whatever mappings and sequences are in it, as dicts and lists."""
    if isinstance(body, Mapping):
        members = cast("Mapping[object, object]", body)
        return {name: plain(each) for name, each in members.items()}
    if isinstance(body, Sequence) and not isinstance(body, str | bytes | bytearray):
        return [plain(each) for each in cast("Sequence[object]", body)]
    return body
