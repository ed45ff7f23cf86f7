# Generated from src/opencomputer/sdk/tags.py by scripts/generate_blocking.py
"""The blocking twins of `opencomputer.sdk.tags`; see there."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from opencomputer.blocking.api_client import ApiClient
from opencomputer.blocking.support.twin import Twin
from opencomputer.sdk import tags as sdk

if TYPE_CHECKING:
    from collections.abc import Mapping

    from opencomputer.sdk.usage_records import TagKeyInfo


class Tags(ApiClient):
    """The tags of sandboxes, also of stopped ones. Unlike metadata they can be changed at any time."""

    def __init__(self, api_key: str | None = None, api_url: str | None = None) -> None:
        Twin.__init__(self, sdk.Tags(api_key, api_url))

    def list_keys(self) -> list[TagKeyInfo]:
        """All tags that sandboxes of the organisation have."""
        return self._run(self._original.list_keys())

    def get(self, sandbox_id: str) -> tuple[dict[str, str], str | None]:
        """A sandbox's tags, and when they were last changed (RFC 3339; None: never)."""
        return self._run(self._original.get(sandbox_id))

    def set(self, sandbox_id: str, tags: Mapping[str, str]) -> tuple[dict[str, str], str | None]:
        """Replace all of a sandbox's tags, at most 50; `{}` removes them. Returns what `get` does.

        Raises `ValidationError` for a key or value that is too long, or a key that is reserved (`oc:…`).
        """
        return self._run(self._original.set(sandbox_id, tags))

    @property
    def _original(self) -> sdk.Tags:
        return cast("sdk.Tags", self._wrapped)
