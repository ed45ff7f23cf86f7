# Generated from src/opencomputer/sdk/durable/sessions.py by scripts/generate_blocking.py
"""The blocking twins of `opencomputer.sdk.durable.sessions`; see there."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from opencomputer.blocking.durable.session import Session
from opencomputer.blocking.support.page import Page
from opencomputer.blocking.support.twin import Twin, view

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from opencomputer.sdk.durable import sessions as sdk
    from opencomputer.sdk.durable.session_records import SessionData


class Sessions(Twin):
    """The organisation's durable sessions."""

    def create(
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
        return view(
            Session,
            self._run(
                self._original.create(
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
                    idempotency_key=idempotency_key,
                )
            ),
        )

    def get(self, session: str) -> Session:
        """One of them. Raises `NotFoundError`."""
        return view(Session, self._run(self._original.get(session)))

    def list(
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
        return Page(
            self._run(
                self._original.list(
                    agent=agent,
                    status=status,
                    key=key,
                    after=after,
                    before=before,
                    limit=limit,
                    cursor=cursor,
                )
            )
        )

    @property
    def _original(self) -> sdk.Sessions:
        return cast("sdk.Sessions", self._wrapped)
