"""Bodies of requests: what was not given is left out, what is None is sent as null."""

from __future__ import annotations

import secrets
from enum import Enum
from typing import Final

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
