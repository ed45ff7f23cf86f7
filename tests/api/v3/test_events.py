"""Reading the log of a session over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from opencomputer.server.domain.sessions.access import Scope
from opencomputer.server.domain.sessions.events import Level, NewEvent
from opencomputer.server.domain.sessions.offload import with_output
from opencomputer.server.domain.sessions.session import Session
from opencomputer.wire.ids import SessionId
from tests.support import session_rows as new
from tests.support.log_server import LogServer, frames, log_server, told

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
async def server(tmp_path_factory: pytest.TempPathFactory, anyio_backend: str) -> AsyncGenerator[LogServer]:
    async with log_server(tmp_path_factory.mktemp("log") / "sessions.db") as made:
        yield made


@pytest.fixture
async def session(server: LogServer) -> Session:
    """Its log: 1 user.message, 2 turn.started, 3 tool.call, 4 agent.message, 5 agent.message (progress)."""
    made = await server.session()
    claim = await server.running(made.id)
    events = [
        NewEvent("tool.call", Level.INTERNAL, {"tool": "bash", "args_summary": "ls"}),
        new.said("done", refs={"a": {"b": 1}}, source="client"),
        new.said("thinking aloud", level=Level.PROGRESS),
    ]
    await server.tables.turns.append(claim, events, new.at(1.5))
    return made


async def seqs(server: LogServer, session_id: str, **query: Any) -> list[int]:
    answer = await server.get(session_id, **query)
    assert answer.status_code == 200, answer.text
    return [event["seq"] for event in answer.json()["data"]]


async def test_events_as_clients_know_them(server: LogServer, session: Session) -> None:
    answer = await server.get(session.id)
    assert answer.headers["Content-Type"] == "application/json"
    listed = answer.json()
    assert listed["next_cursor"] is None
    assert [event["type"] for event in listed["data"]] == [
        "user.message",
        "turn.started",
        "tool.call",
        "agent.message",
        "agent.message",
    ]
    said = listed["data"][3]
    assert session.last_turn is not None
    assert said == {
        "id": said["id"],
        "seq": 4,
        "ts": "2026-01-01T12:00:01.500Z",
        "session": session.id,
        "actor": {"id": "agent", "type": "agent"},
        "type": "agent.message",
        "level": "user",
        "body": {"text": "done"},
        "turn_id": session.last_turn.id,
        "refs": {"a": {"b": 1}},
        "source": "client",
    }
    assert (await server.get(session.id, f"/events/{said['id']}")).json() == said


async def test_filters_join_with_and(server: LogServer, session: Session) -> None:
    assert await seqs(server, session.id, level="internal") == [1, 2, 3, 4, 5]
    assert await seqs(server, session.id, level="progress") == [1, 2, 4, 5]
    assert await seqs(server, session.id, level="user") == [1, 4]
    assert await seqs(server, session.id, type="tool.call") == [3]
    assert await seqs(server, session.id, type="agent.*", level="user") == [4]
    assert await seqs(server, session.id, type="*.message", after=1) == [4, 5]
    assert await seqs(server, session.id, type="Agent.*") == []
    assert await seqs(server, session.id, type="agent") == []
    assert await seqs(server, session.id, turn_id="trn_other") == []
    assert session.last_turn is not None
    assert await seqs(server, session.id, turn_id=session.last_turn.id, after=3) == [4, 5]


async def test_messages_are_what_user_and_agent_said(server: LogServer, session: Session) -> None:
    answer = (await server.get(session.id, "/messages", limit=1)).json()
    assert [event["body"]["text"] for event in answer["data"]] == ["hello"]
    answer = (await server.get(session.id, "/messages", after=answer["next_cursor"])).json()
    assert [event["body"]["text"] for event in answer["data"]] == ["done"]
    assert answer["next_cursor"] is None


async def test_pages_go_on_after_the_last_event(server: LogServer, session: Session) -> None:
    first = (await server.get(session.id, limit=2)).json()
    assert first["next_cursor"] == "2"
    assert await seqs(server, session.id, after=first["next_cursor"], limit=2) == [3, 4]
    assert await seqs(server, session.id, cursor="4") == [5]
    assert (await server.get(session.id, limit=5)).json()["next_cursor"] is None
    assert await seqs(server, session.id, after=10**17) == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("after", "-1"),
        ("after", "x"),
        ("after", ""),
        ("after", "9" * 19),
        ("after", "١"),
        ("cursor", "one"),
        ("limit", "0"),
        ("limit", "many"),
        ("level", "all"),
        ("type", ""),
        ("type", "a\nb"),
        ("turn_id", "x" * 300),
    ],
)
async def test_names_the_parameter_that_is_wrong(
    server: LogServer, session: Session, name: str, value: str
) -> None:
    answer = await server.get(session.id, **{name: value})
    error = answer.json()["error"]
    assert (answer.status_code, error["type"], error["param"]) == (400, "invalid", name)


async def test_what_was_too_large_is_served_apart(server: LogServer) -> None:
    session = await server.session(input=new.message("ä" * 40_000))
    claim = await server.running(session.id)
    ran = NewEvent("exec.completed", Level.INTERNAL, {"command": "ls", "exit_code": 0, "summary": "a"})
    await server.tables.turns.append(claim, [with_output(ran, b"\xffall of it")], new.at(1))
    message, _, completed = (await server.get(session.id)).json()["data"]
    assert message["body_truncated"] is True
    assert len(message["body"]["text"]) < 40_000
    content = await server.get(session.id, f"/events/{message['id']}/content")
    assert content.headers["Content-Type"] == "application/json"
    assert content.json() == {"text": "ä" * 40_000}
    assert message["body_bytes"] == len(content.content)
    output = await server.get(session.id, f"/events/{completed['id']}/content")
    assert output.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert output.headers["X-Content-Type-Options"] == "nosniff"
    assert output.content == b"\xffall of it"
    assert completed["body"]["content_ref"] == completed["content_ref"]
    assert completed["body"]["bytes"] == 11 - 1


async def test_what_there_is_not_is_not_found(server: LogServer, session: Session) -> None:
    other = await server.session()
    [event] = (await server.get(session.id, limit=1)).json()["data"]
    for missing in (
        await server.get("ses_unknown"),
        await server.get("ses_unknown", stream="sse"),
        await server.get("ses_unknown", "/messages"),
        await server.get(session.id, "/events/evt_unknown"),
        await server.get(other.id, f"/events/{event['id']}"),
        await server.get(session.id, f"/events/{event['id']}/content"),
        await server.get(other.id, f"/events/{event['id']}/content"),
    ):
        assert (missing.status_code, missing.json()["error"]["type"]) == (404, "not_found")


async def test_a_client_token_reads_its_session_only(server: LogServer, session: Session) -> None:
    other = await server.session()
    reads, steers = server.token(session.id), server.token(session.id, Scope.STEER)

    async def status(token: str, session_id: str, path: str = "/events", **query: str) -> int:
        headers = {"Authorization": f"Bearer {token}"}
        address = f"{server.url}/v3/sessions/{session_id}{path}"
        async with httpx.AsyncClient() as client:
            return (await client.get(address, headers=headers, params=query)).status_code

    assert await status(reads, session.id) == await status(reads, session.id, "/messages") == 200
    assert await status(reads, other.id) == await status(steers, session.id) == 403
    async with httpx.AsyncClient() as client:
        assert (await client.get(f"{server.url}/v3/sessions/{session.id}/events")).status_code == 401
        # A token in an address is for streams alone.
        address = f"{server.url}/v3/sessions/{session.id}/events?token={reads}"
        assert (await client.get(address)).status_code == 401
        async with client.stream("GET", f"{address}&stream=sse") as answer:
            assert answer.status_code == 200


async def _take(events: AsyncIterator[dict[str, Any]], most: int) -> list[int]:
    taken: list[int] = []
    async for event in events:
        taken.append(event["seq"])
        if len(taken) == most:
            break
    return taken


async def test_a_stream_tells_what_was_and_then_what_comes(server: LogServer, session: Session) -> None:
    async with server.stream(session.id) as answer:
        assert answer.headers["Content-Type"] == "text/event-stream; charset=utf-8"
        assert answer.headers["Cache-Control"] == "no-cache, no-transform"
        assert answer.headers["X-Accel-Buffering"] == "no"
        events = told(answer)
        assert await _take(events, 5) == [1, 2, 3, 4, 5]
        await server.tables.sessions.accept(session.id, new.message("more"), new.at(9))
        assert await _take(events, 1) == [6]
        await server.tables.sessions.archive(session.id, new.at(10))
        assert await _take(events, 4) == [7, 8, 9, 10]
        # Archived is not over: whoever reads stays.
        await server.tables.sessions.note(session.id, [new.said()], new.at(11))
        assert await _take(events, 1) == [11]


async def test_a_stream_begins_with_a_heartbeat(server: LogServer, session: Session) -> None:
    async with server.stream(session.id, after=5) as answer:
        seen = [each async for each in _first(frames(answer), 2)]
    assert seen == ["retry: 2000", ": hb"]


async def _first(items: AsyncIterator[str], most: int) -> AsyncIterator[str]:
    count = 0
    async for each in items:
        yield each
        count += 1
        if count == most:
            return


async def test_a_stream_goes_on_after_whichever_is_later(server: LogServer, session: Session) -> None:
    for header, after, first in (("3", 1, 4), ("2", 4, 5), ("junk", 2, 3), ("", 2, 3)):
        async with server.stream(session.id, {"Last-Event-ID": header}, after=after) as answer:
            assert await _take(told(answer), 1) == [first]
    async with server.stream(session.id, {"Last-Event-ID": "5"}) as answer:
        events = told(answer)
        await server.tables.sessions.accept(session.id, new.message("more"), new.at(9))
        assert await _take(events, 1) == [6]


async def test_a_stream_passes_filters(server: LogServer, session: Session) -> None:
    async with server.stream(session.id, type="agent.*", level="user") as answer:
        events = told(answer)
        assert await _take(events, 1) == [4]
        await server.tables.sessions.accept(session.id, new.message("more"), new.at(9))
        await server.tables.sessions.note(session.id, [new.said("at last")], new.at(9))
        assert await _take(events, 1) == [7]


async def test_who_accepts_a_stream_gets_one(server: LogServer, session: Session) -> None:
    headers = {"Accept": "text/event-stream"}
    address = f"/v3/sessions/{session.id}/events"
    async with server.client.stream("GET", address, headers=headers) as answer:
        assert await _take(told(answer), 1) == [1]


async def test_a_stream_that_starts_beyond_the_end_waits_for_it(server: LogServer, session: Session) -> None:
    async with server.stream(session.id, after=7) as answer:
        events = told(answer)
        async with server.stream(session.id) as other:
            assert await _take(told(other), 5) == [1, 2, 3, 4, 5]
        for text in ("6", "7", "8"):
            await server.tables.sessions.accept(session.id, new.message(text), new.at(9))
        assert await _take(events, 1) == [8]


async def test_a_stream_ends_with_its_token(server: LogServer, session: Session) -> None:
    token = server.token(session.id, seconds=3)
    headers = {"Authorization": f"Bearer {token}"}
    async with asyncio.timeout(60), server.stream(session.id, headers) as answer:
        assert answer.status_code == 200
        seen = [event["seq"] async for event in told(answer)]
    assert seen == [1, 2, 3, 4, 5][: len(seen)]


async def test_a_stream_ends_with_its_key(server: LogServer, session: Session) -> None:
    key = await server.access.create_key(server.org_id, "leaked")
    headers = {"X-API-Key": key.secret}
    async with asyncio.timeout(60), server.stream(session.id, headers) as answer:
        events = told(answer)
        assert await _take(events, 5) == [1, 2, 3, 4, 5]
        await server.access.revoke_key(server.org_id, key.record.id)
        assert [event async for event in events] == []


async def test_a_stream_ends_with_the_node(tmp_path: Path) -> None:
    async with log_server(tmp_path / "other.db") as server:
        keeping = asyncio.create_task(server.log.keep())
        session = await server.session()
        async with asyncio.timeout(60), server.stream(session.id) as answer:
            events = told(answer)
            assert await _take(events, 1) == [1]
            keeping.cancel()
            assert [event async for event in events] == []
        await asyncio.gather(keeping, return_exceptions=True)


async def test_nothing_of_a_reader_stays(server: LogServer) -> None:
    sessions = [await server.session() for _ in range(3)]

    async def look(session_id: SessionId) -> None:
        async with server.stream(session_id) as answer:
            assert await _take(told(answer), 1) == [1]

    await asyncio.gather(*(look(each.id) for each in sessions * 5))
    async with asyncio.timeout(60):
        while server.log.watched:  # noqa: ASYNC110 - it is the server that has to notice
            await asyncio.sleep(0.01)
    assert server.log.watched == 0
