"""What wakes a session: changes of pull requests that it opened."""

from __future__ import annotations

from opencomputer.sdk.durable.bodies import set_members
from opencomputer.sdk.durable.connection import Connection, Request, reading
from opencomputer.sdk.durable.records import Page, inner, page_of
from opencomputer.sdk.durable.session_records import Watch
from opencomputer.sdk.paths import path_of


class Watches:
    """The watches of one session."""

    def __init__(self, connection: Connection, session_id: str) -> None:
        self._connection = connection
        self._session_id = session_id

    async def create(
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
        body = set_members(type=type, repo=repo, pr=pr, wake_on=wake_on, intent=intent)
        answer = await self._connection.object(Request("POST", self._path(), json=body))
        return Watch.read(inner(answer, "watch"))

    async def list(self) -> Page[Watch]:
        """Oldest first."""
        answer = await self._connection.json(reading(self._path()))
        return page_of(answer, Watch.read)

    async def delete(self, watch: str) -> None:
        """Wake it no more by this."""
        await self._connection.send(Request("DELETE", self._path(watch)))

    def _path(self, *parts: str) -> str:
        return path_of("sessions", self._session_id, "watches", *parts)
