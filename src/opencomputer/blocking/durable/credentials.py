# Generated from src/opencomputer/sdk/durable/credentials.py by scripts/generate_blocking.py
"""The blocking twins of `opencomputer.sdk.durable.credentials`; see there."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from opencomputer.blocking.support.page import Page
from opencomputer.blocking.support.twin import Twin

if TYPE_CHECKING:
    from opencomputer.sdk.durable import credentials as sdk
    from opencomputer.sdk.durable.agent_records import Credential


class Credentials(Twin):
    """The organisation's credentials. Keys go in and are never given out again."""

    def create(
        self,
        *,
        key: str,
        provider: str | None = None,
        name: str | None = None,
        is_default: bool | None = None,
    ) -> Credential:
        """Keep a key; `provider` is anthropic by default."""
        return self._run(self._original.create(key=key, provider=provider, name=name, is_default=is_default))

    def list(self) -> Page[Credential]:
        """Oldest first."""
        return Page(self._run(self._original.list()))

    def rotate(self, credential: str, key: str) -> Credential:
        """Replace the key, also for sessions that run."""
        return self._run(self._original.rotate(credential, key))

    def set_default(self, credential: str, *, provider: str | None = None) -> Credential:
        """Use this one where an agent has none of its own."""
        return self._run(self._original.set_default(credential, provider=provider))

    def delete(self, credential: str) -> None:
        """Forget a key. Sessions that use it fail at their next turn."""
        self._run(self._original.delete(credential))

    @property
    def _original(self) -> sdk.Credentials:
        return cast("sdk.Credentials", self._wrapped)
