"""`/api/tags` and `…/tags` (sandbox-wire.md section 4). What is put is the flat map itself."""

from __future__ import annotations

from datetime import datetime

from pydantic import RootModel, StrictStr

from opencomputer.wire.model import WireModel


class PutTags(RootModel[dict[str, StrictStr]]):
    """All that the sandbox is to have; an empty object clears them."""


class TagsView(WireModel):
    """The moment is null until tags were put for the first time."""

    tags: dict[str, str]
    tags_last_updated_at: datetime | None


class TagKeyView(WireModel):
    key: str
    sandbox_count: int
    value_count: int


class TagKeysView(WireModel):
    keys: list[TagKeyView]
