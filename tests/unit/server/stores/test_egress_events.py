"""The log of what sandboxes reached: in order, filtered, and not for ever."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from opencomputer.server.contracts.egress import EgressEvent, EgressQuery
from opencomputer.server.stores.sql.database import Database
from opencomputer.server.stores.sql.egress_events import SqlEgressEventStore
from opencomputer.wire.ids import OrgId, SandboxId
from tests.support import rows

pytestmark = pytest.mark.anyio

ORG, BOX = OrgId("org-1"), SandboxId("sb-00000001")
EVENT = EgressEvent(rows.at(1), ORG, BOX, "tls", "api.example.com", 443, "allowed")
QUERY = EgressQuery(ORG, BOX)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncGenerator[SqlEgressEventStore]:
    database = Database.sqlite(tmp_path / "events.db")
    await database.open()
    yield SqlEgressEventStore(database)
    await database.close()


async def hosts(store: SqlEgressEventStore, query: EgressQuery = QUERY) -> list[str]:
    return [each.event.host for each in await store.find(query)]


async def test_an_event_comes_back_as_it_was(store: SqlEgressEventStore) -> None:
    denied = replace(
        EVENT,
        decision="denied",
        reason="host_mismatch",
        address="203.0.113.9",
        intercepted=True,
        secrets=("API_KEY",),
        withheld=("OTHER",),
        bytes_out=1 << 40,
        bytes_in=7,
        lost=3,
    )
    await store.add([EVENT, denied])
    await store.add([])
    assert [each.event for each in await store.find(QUERY)] == [EVENT, denied]


async def test_events_are_only_those_of_the_sandbox_and_its_organisation(store: SqlEgressEventStore) -> None:
    await store.add([EVENT, replace(EVENT, sandbox_id=SandboxId("sb-00000002"))])
    await store.add([replace(EVENT, org_id=OrgId("org-2"))])
    assert len(await store.find(QUERY)) == 1


async def test_the_log_is_read_page_by_page(store: SqlEgressEventStore) -> None:
    await store.add([replace(EVENT, host=f"h{number}.example") for number in range(5)])
    first = await store.find(replace(QUERY, limit=2))
    rest = await store.find(replace(QUERY, after=first[-1].position))
    assert [each.event.host for each in (*first, *rest)] == [f"h{number}.example" for number in range(5)]
    assert await store.find(replace(QUERY, after=rest[-1].position)) == []


async def test_events_are_found_by_decision_and_host(store: SqlEgressEventStore) -> None:
    await store.add(
        [
            replace(EVENT, host=host, decision="denied" if "evil" in host else "allowed")
            for host in ("example.com", "a.example.com", "b.a.example.com", "evil.com", "a_example.com")
        ]
    )
    assert await hosts(store, replace(QUERY, decision="denied")) == ["evil.com"]
    assert await hosts(store, replace(QUERY, host="example.com")) == ["example.com"]
    assert await hosts(store, replace(QUERY, host="*.example.com")) == ["a.example.com", "b.a.example.com"]


async def test_what_is_old_or_too_much_is_removed_and_numbers_are_never_used_again(
    store: SqlEgressEventStore,
) -> None:
    await store.add([replace(EVENT, host=f"h{day}.example", at=rows.at(day)) for day in range(1, 7)])
    positions = [each.position for each in await store.find(QUERY)]
    assert await store.prune(rows.at(1) + timedelta(seconds=1), keep=100) == 1
    assert await store.prune(rows.at(1), keep=2) == 3
    assert await hosts(store) == ["h5.example", "h6.example"]
    assert await store.prune(rows.at(20), keep=0) == 2
    assert await store.prune(rows.at(20), keep=0) == 0
    await store.add([EVENT])
    assert (await store.find(QUERY))[0].position > positions[-1]
