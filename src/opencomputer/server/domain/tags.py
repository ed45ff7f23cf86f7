"""Tags: what users call their sandboxes by, changeable at any time, unlike metadata."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from opencomputer.server.domain.errors import InvalidInput

MAX_TAGS = 50
MAX_KEY = 128
MAX_VALUE = 256
RESERVED = "oc:"
_KEY = re.compile(rf"[A-Za-z0-9_.\-:]{{1,{MAX_KEY}}}")


@dataclass(frozen=True)
class Tags:
    """All tags of one sandbox. `updated_at` is None where none were ever put."""

    values: Mapping[str, str] = field(default_factory=dict[str, str])
    updated_at: datetime | None = None


@dataclass(frozen=True)
class TagKey:
    """How many of an organisation's sandboxes have a key, and how many different values it has there."""

    key: str
    sandboxes: int
    values: int


def check_tags(given: Mapping[str, str]) -> Mapping[str, str]:
    """What a client sent, if it can be a sandbox's tags. Raises InvalidInput naming the key that cannot."""
    if len(given) > MAX_TAGS:
        raise InvalidInput(f"tags: must be at most {MAX_TAGS}", field="tags")
    for key, value in given.items():
        _check_key(key)
        if len(value) > MAX_VALUE or "\0" in value:
            message = f"{key}: must be at most {MAX_VALUE} characters, none of them NUL"
            raise InvalidInput(message, field=key)
    return dict(given)


def is_tag_key(text: str) -> bool:
    """Whether a tag could have this key, be it reserved or not."""
    return _KEY.fullmatch(text) is not None


def _check_key(key: str) -> None:
    if not is_tag_key(key):
        raise InvalidInput(f"tags: a key must be 1 to {MAX_KEY} of A-Z a-z 0-9 _ . - :", field="tags")
    if key.startswith(RESERVED):
        raise InvalidInput(f"{key}: keys that begin with {RESERVED} are reserved", field=key)
