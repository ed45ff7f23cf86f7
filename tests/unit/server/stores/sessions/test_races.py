"""Several servers on one database, and what may happen once happens once."""

from __future__ import annotations

import asyncio

import pytest

from opencomputer.server.contracts.sessions import Fenced
from opencomputer.server.domain.errors import IdempotencyMismatch
from opencomputer.server.domain.sessions.events import Event
from opencomputer.server.domain.sessions.session import Claim, SessionFilter
from tests.support import session_rows as new
from tests.unit.server.stores.sessions.conftest import Node

pytestmark = pytest.mark.anyio


async def test_twenty_at_once_with_one_key_make_one_session(nodes: list[Node]) -> None:
    org = nodes[0].org_id
    admitted = await asyncio.gather(
        *(nodes[each % 3].tables.sessions.admit(new.admission(org, key="k")) for each in range(20))
    )
    assert len({each.session.id for each in admitted}) == 1
    assert sum(not each.replayed for each in admitted) == 1
    [session] = await nodes[1].tables.sessions.list(org, SessionFilter(), limit=9)
    assert await nodes[2].types(session.id) == ["user.message"]


async def test_of_two_requests_with_one_key_one_is_refused(nodes: list[Node]) -> None:
    requests = [new.admission(nodes[0].org_id, f"h{each % 2}", key="k") for each in range(6)]
    answers = await asyncio.gather(
        *(nodes[i % 3].tables.sessions.admit(request) for i, request in enumerate(requests)),
        return_exceptions=True,
    )
    assert sum(isinstance(each, IdempotencyMismatch) for each in answers) == 3


async def test_one_of_many_claims_a_session(nodes: list[Node]) -> None:
    session = await nodes[0].admit()
    claims = await asyncio.gather(
        *(
            node.tables.turns.claim(session.id, f"{i}", new.at(), new.at(30))
            for i, node in enumerate(nodes * 4)
        )
    )
    [claim] = [each for each in claims if each is not None]
    assert claim.epoch == 1


async def test_the_same_input_sent_at_once_is_taken_once(nodes: list[Node]) -> None:
    session = await nodes[0].admit()
    accepted = await asyncio.gather(
        *(
            node.tables.sessions.accept(session.id, new.message(key="k"), new.at(), request_hash="h")
            for node in nodes * 4
        )
    )
    assert len({each.event.id for each in accepted}) == 1
    assert sum(not each.replayed for each in accepted) == 1


async def test_a_turn_ends_once(nodes: list[Node]) -> None:
    session = await nodes[0].admit()
    claim = await nodes[0].running(session.id)
    ended = await asyncio.gather(
        *(node.complete(claim) for node in nodes * 3),
        *(node.tables.sessions.archive(session.id, new.at(4)) for node in nodes),
        return_exceptions=True,
    )
    assert all(isinstance(each, Fenced) for each in ended if isinstance(each, BaseException))
    types = await nodes[1].types(session.id)
    assert types.count("turn.completed") == types.count("session.archived") == 1


async def test_many_writers_leave_no_gap(nodes: list[Node]) -> None:
    session = await nodes[0].admit()
    claim = await nodes[0].running(session.id)

    async def say(node: Node, texts: range) -> list[Event]:
        return [await node.say(session.id, str(text)) for text in texts]

    async def append(node: Node, keys: range) -> list[Event]:
        added: list[Event] = []
        for key in keys:
            added += await node.tables.turns.append(claim, [new.said(key=f"k{key}")], new.at(2))
        return added

    said = await asyncio.gather(
        *(say(node, range(10)) for node in nodes),
        # Everyone appends the same keys.
        *(append(node, range(10)) for node in nodes),
    )
    log = await nodes[1].events(session.id)
    assert [event.seq for event in log] == list(range(1, 2 + 30 + 10 + 1))
    assert {event.id for events in said for event in events} == {event.id for event in log[2:]}


async def test_who_was_overtaken_writes_nothing_more(nodes: list[Node]) -> None:
    """Two owners write as fast as they can; as soon as the second has claimed, the first is out."""
    session = await nodes[0].admit()
    first = await nodes[0].running(session.id)
    written: list[str] = []

    async def write(node: Node, claim: Claim, name: str) -> None:
        for _ in range(40):
            await node.tables.turns.append(claim, [new.said(name)], new.at(2))
            written.append(name)

    async def overtake() -> None:
        await asyncio.sleep(0)
        claim = await nodes[1].tables.turns.claim(session.id, "other", new.at(100), new.at(130))
        assert claim is not None
        await write(nodes[1], claim, "second")
        await nodes[1].complete(claim, seconds=101)

    results = await asyncio.gather(write(nodes[0], first, "first"), overtake(), return_exceptions=True)
    assert results[1] is None
    texts = [
        event.body["text"] for event in await nodes[2].events(session.id) if event.type == "agent.message"
    ]
    assert texts == sorted(texts)
    assert texts.count("second") == 40
    assert texts.count("first") == written.count("first")
