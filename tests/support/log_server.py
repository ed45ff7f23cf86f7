"""The routes of the log over HTTP, with the stores beside them: tests append and see what readers get."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import httpx
from prometheus_client import CollectorRegistry

from opencomputer.server.clock import SystemClock
from opencomputer.server.contracts.sessions import SessionTables
from opencomputer.server.domain.sessions.access import Scope, TokenRequest
from opencomputer.server.domain.sessions.session import Claim, Session
from opencomputer.server.http.access_log import AccessLog
from opencomputer.server.http.session_api.app import create_session_api
from opencomputer.server.listeners import bind, listening
from opencomputer.server.services.access import Access
from opencomputer.server.services.facade import Services
from opencomputer.server.services.sessions.client_tokens import ClientTokens
from opencomputer.server.services.sessions.log import SessionLog
from opencomputer.server.services.sessions.signals import ProcessSignals
from opencomputer.server.stores.sql.api_keys import SqlApiKeyStore
from opencomputer.server.stores.sql.database import Database
from opencomputer.server.stores.sql.organisations import SqlOrganisationStore
from opencomputer.server.stores.sql.sessions.stores import session_tables
from opencomputer.wire.ids import OrgId, SessionId
from tests.support import session_rows as new
from tests.support.waiting import ANSWER_SECONDS


@dataclass(frozen=True)
class LogServer:
    url: str
    org_id: OrgId
    tables: SessionTables
    log: SessionLog
    tokens: ClientTokens
    client: httpx.AsyncClient
    access: Access

    async def session(self, **changes: Any) -> Session:
        return (await self.tables.sessions.admit(new.admission(self.org_id, **changes))).session

    async def running(self, session_id: SessionId) -> Claim:
        """The right to append, for an hour."""
        claim = await self.tables.turns.claim(session_id, "me", new.at(), new.at(3600))
        assert claim is not None
        await self.tables.turns.begin(claim, new.at(), new.at(3600))
        return claim

    async def get(self, session_id: str, path: str = "/events", **query: Any) -> httpx.Response:
        return await self.client.get(f"/v3/sessions/{session_id}{path}", params=query)

    def token(self, session_id: SessionId, *scopes: Scope, seconds: float = 60) -> str:
        wanted = TokenRequest(scopes or (Scope.READ,), timedelta(seconds=seconds))
        return self.tokens.mint(self.org_id, session_id, wanted).secret

    @asynccontextmanager
    async def stream(
        self, session_id: str, headers: Mapping[str, str] | None = None, **query: Any
    ) -> AsyncGenerator[httpx.Response]:
        address = f"/v3/sessions/{session_id}/events"
        params = {"stream": "sse", **query}
        async with self.client.stream("GET", address, params=params, headers=headers) as answer:
            yield answer


async def frames(answer: httpx.Response) -> AsyncIterator[str]:
    """Split at a blank line made of two LF, as the published client does."""
    rest = ""
    async for text in answer.aiter_text():
        *whole, rest = (rest + text).split("\n\n")
        for each in whole:
            yield each


async def told(answer: httpx.Response) -> AsyncIterator[dict[str, Any]]:
    """The events of a stream."""
    async for each in frames(answer):
        lines = each.split("\n")
        documents = [line[5:].strip() for line in lines if line.startswith("data:")]
        if documents:
            event = json.loads(documents[0])
            assert lines == [f"id: {event['seq']}", f"data: {documents[0]}"]
            yield event


@asynccontextmanager
async def log_server(file: Path) -> AsyncGenerator[LogServer]:
    database, clock, signals = Database.sqlite(file), SystemClock(), ProcessSignals()
    await database.open()
    try:
        access = Access(SqlOrganisationStore(database), SqlApiKeyStore(database), clock, b"s" * 32)
        created = await access.create_organisation("an organisation")
        tables, tokens = session_tables(database, signals), ClientTokens(b"t" * 32, clock)
        log = SessionLog(tables, signals)
        durable = SimpleNamespace(log=log, client_tokens=tokens)
        services = cast(Services, SimpleNamespace(access=access, durable=durable, clock=clock))
        app = AccessLog(create_session_api(services), CollectorRegistry())
        bound = bind("127.0.0.1", 0)
        url = f"http://127.0.0.1:{bound.getsockname()[1]}"
        async with (
            listening(app, bound),
            httpx.AsyncClient(
                base_url=url, headers={"X-API-Key": created.secret}, timeout=ANSWER_SECONDS
            ) as client,
        ):
            yield LogServer(url, created.record.org_id, tables, log, tokens, client, access)
    finally:
        await database.close()
