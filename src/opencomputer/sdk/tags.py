"""Tags of sandboxes, by which usage is told apart: `Tags`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from opencomputer.sdk import answers
from opencomputer.sdk.api_client import ApiClient
from opencomputer.sdk.control_plane import Call, get
from opencomputer.sdk.sandbox_link import path_below_sandboxes
from opencomputer.sdk.usage_records import TagKeyInfo

if TYPE_CHECKING:
    from opencomputer.sdk.answers import JsonObject


class Tags(ApiClient):
    """The tags of sandboxes, also of stopped ones. Unlike metadata they can be changed at any time."""

    async def list_keys(self) -> list[TagKeyInfo]:
        """All tags that sandboxes of the organisation have."""
        answer = await self._object(get("/tags"))
        return [
            TagKeyInfo(
                key=answers.required_text(each, "key"),
                sandbox_count=answers.whole(each, "sandboxCount") or 0,
                value_count=answers.whole(each, "valueCount") or 0,
            )
            for each in answers.json_objects(answer.get("keys"))
        ]

    async def get(self, sandbox_id: str) -> tuple[dict[str, str], str | None]:
        """A sandbox's tags, and when they were last changed (RFC 3339; None: never)."""
        return _tags(await self._object(get(_path(sandbox_id))))

    async def set(self, sandbox_id: str, tags: Mapping[str, str]) -> tuple[dict[str, str], str | None]:
        """Replace all of a sandbox's tags, at most 50; `{}` removes them. Returns what `get` does.

        Raises `ValidationError` for a key or value that is too long, or a key that is reserved (`oc:…`).
        """
        call = Call("PUT", _path(sandbox_id), repeatable=True, json=dict(tags))
        return _tags(await self._object(call))


def _path(sandbox_id: str) -> str:
    return path_below_sandboxes(sandbox_id, "tags")


def _tags(answer: JsonObject) -> tuple[dict[str, str], str | None]:
    return answers.text_map(answer, "tags"), answers.text(answer, "tagsLastUpdatedAt") or None
