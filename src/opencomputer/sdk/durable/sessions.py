"""Durable sessions: what `oc.sessions` offers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from opencomputer.sdk import answers
from opencomputer.sdk.durable.bodies import new_key, set_members
from opencomputer.sdk.durable.connection import Connection, Request, reading
from opencomputer.sdk.durable.records import Page, inner, page_of
from opencomputer.sdk.durable.session import Session
from opencomputer.sdk.durable.session_records import SessionData, SessionSource
from opencomputer.sdk.paths import path_of


class Sessions:
    """The organisation's durable sessions."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def create(
        self,
        *,
        agent: str,
        input: str | Mapping[str, object],
        model: str | None = None,
        revision: int | str | None = None,
        key: str | None = None,
        metadata: Mapping[str, object] | None = None,
        limits: Mapping[str, int] | None = None,
        webhook: str | None = None,
        destinations: Sequence[Mapping[str, object]] | None = None,
        sources: Sequence[Mapping[str, object]] | None = None,
        idempotency_key: str | None = None,
    ) -> Session:
        """Start a session with its first input. It is durable when this returns, and works by itself.

        `agent` is an id or a name. `key` names the session: asking again gives the same one, for ever.
        `sources` are repositories to work on: `{"repo": "owner/name", "ref": "main"}`, or by `url`.
        `metadata` is the caller's own and comes back with webhooks. A lost answer makes no second session,
        whether or not a key is given. Raises `ConflictError` when a key was used for something else.
        """
        body = set_members(
            agent=agent,
            input=input,
            model=model,
            revision=revision,
            key=key,
            metadata=metadata,
            limits=limits,
            webhook=webhook,
            destinations=destinations,
            sources=sources,
        )
        retry_key = idempotency_key or (None if key else new_key())
        headers = {"Idempotency-Key": retry_key} if retry_key else {}
        request = Request("POST", "/sessions", repeatable=True, json=body, headers=headers)
        answer = await self._connection.object(request)
        token = answers.text(answer, "client_token") or None
        data = SessionData.read(inner(answer, "session"))
        found = page_of(answer.get("sources") or [], SessionSource.read).data
        return Session(self._connection, data, client_token=token, sources=found)

    async def get(self, session: str) -> Session:
        """One of them. Raises `NotFoundError`."""
        answer = await self._connection.object(reading(path_of("sessions", session)))
        return Session(self._connection, SessionData.read(inner(answer, "session")))

    async def list(
        self,
        *,
        agent: str | None = None,
        status: str | None = None,
        key: str | None = None,
        after: str | None = None,
        before: str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> Page[SessionData]:
        """Newest first. `agent` is an id; `after` and `before` are times of creation in RFC 3339."""
        filters = {"agent": agent, "status": status, "key": key, "after": after, "before": before}

        async def page(cursor: str | None) -> Page[SessionData]:
            request = reading("/sessions", **filters, limit=limit, cursor=cursor)
            return page_of(await self._connection.object(request), SessionData.read, page)

        return await page(cursor)
