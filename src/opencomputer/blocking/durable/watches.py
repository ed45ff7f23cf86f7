# Generated from src/opencomputer/sdk/durable/watches.py by scripts/generate_blocking.py
"""The blocking twins of `opencomputer.sdk.durable.watches`; see there."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from opencomputer.blocking.support.page import Page
from opencomputer.blocking.support.twin import Twin

if TYPE_CHECKING:
    from opencomputer.sdk.durable import watches as sdk
    from opencomputer.sdk.durable.session_records import Watch


class Watches(Twin):
    """The watches of one session."""

    def create(
        self,
        type: str = "github_pr",
        repo: str | None = None,
        pr: int | None = None,
        wake_on: str | None = None,
        intent: str | None = None,
    ) -> Watch:
        """Wake it when checks have ended, or by `wake_on`: checks, review, comment or merge.

        Without `repo` and `pr` its newest pull request is meant. It is told the `intent` when it wakes.
        """
        return self._run(self._original.create(type, repo, pr, wake_on, intent))

    def list(self) -> Page[Watch]:
        """Oldest first."""
        return Page(self._run(self._original.list()))

    def delete(self, watch: str) -> None:
        """Wake it no more by this."""
        self._run(self._original.delete(watch))

    @property
    def _original(self) -> sdk.Watches:
        return cast("sdk.Watches", self._wrapped)
