"""Turns, results, cancelling and archiving (agent-sessions.md sections 3.12, 4.8)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from opencomputer.server.domain.sessions.events import AGENT_MESSAGE, Level, NewEvent
from opencomputer.server.domain.sessions.session import (
    Claim,
    Completion,
    TurnError,
    Usage,
    YieldReason,
)
from opencomputer.wire.ids import SessionId
from tests.api.v3.answers import error_of, ok
from tests.support.session_world import SessionWorld

pytestmark = pytest.mark.anyio

USAGE = Usage(100, 20, 3, 4, cost_usd=0.5)


@dataclass
class Worker:
    """Works on the turns of a world as an engine would."""

    world: SessionWorld

    async def begin(self, session: str) -> Claim:
        now = self.world.clock.now()
        turns = self.world.tables.turns
        claim = await turns.claim(SessionId(session), "w", now, now + timedelta(seconds=30))
        assert claim is not None
        await turns.begin(claim, now, now + timedelta(seconds=1800))
        return claim

    async def end(
        self, claim: Claim, reason: YieldReason = YieldReason.COMPLETED, text: str | None = None, **how: Any
    ) -> None:
        turns = self.world.tables.turns
        result = None
        if text is not None:
            said = NewEvent(AGENT_MESSAGE, Level.USER, {"text": text}, key=f"rt:{claim.turn_id}:1")
            [event] = await turns.append(claim, [said], self.world.clock.now())
            result = event.id
        await turns.complete(claim, Completion(reason, self.world.clock.now(), result_event_id=result, **how))

    async def whole(self, session: str, seconds: float = 2.5, **how: Any) -> None:
        claim = await self.begin(session)
        self.world.clock.advance(seconds)
        await self.end(claim, **how)


@pytest.fixture
def worker(world: SessionWorld) -> Worker:
    return Worker(world)


async def show(world: SessionWorld, path: str) -> Any:
    return ok(await world.client.get(f"/sessions/{path}"))


async def say(world: SessionWorld, session: str) -> Any:
    return ok(await world.client.post(f"/sessions/{session}/messages", json={"text": "more"}), 202)


async def test_a_turn_goes_through_its_states(world: SessionWorld, worker: Worker) -> None:
    session = await world.new()
    turn = (await show(world, session))["last_turn"]["id"]
    queued = await show(world, f"{session}/turns/{turn}")
    assert queued == {
        "id": turn,
        "state": "queued",
        "active_seconds": 0,
        "usage": {"reported": False},
        "attempt": 0,
        "input_from_seq": 1,
        "input_to_seq": 1,
    }
    claim = await worker.begin(session)
    running = await show(world, f"{session}/turns/{turn}")
    assert (running["state"], running["attempt"]) == ("running", 1)
    assert running["started_at"].endswith("Z")
    assert (await show(world, session))["status"] == "running"
    world.clock.advance(2.5)
    await worker.end(claim, text="done", usage=USAGE)
    ended = await show(world, f"{session}/turns/{turn}")
    assert (ended["state"], ended["yield_reason"], ended["active_seconds"]) == ("ok", "completed", 2.5)
    assert ended["usage"] == {
        "reported": True,
        "input_tokens": 100,
        "output_tokens": 20,
        "cache_creation_input_tokens": 3,
        "cache_read_input_tokens": 4,
        "tokens": 127,
        "total_cost_usd": 0.5,
        "attribution": "exact",
    }
    shown = await show(world, session)
    assert (shown["status"], shown["input_cursor"]) == ("idle", 1)
    assert shown["last_turn"] == {
        name: ended[name]
        for name in ("id", "state", "yield_reason", "result_event_id", "started_at", "completed_at")
    }


async def test_a_failed_turn_says_why(world: SessionWorld, worker: Worker) -> None:
    session = await world.new()
    error = TurnError("credential_missing", "The key was deleted.", retriable=True)
    await worker.whole(session, reason=YieldReason.ERROR, error=error)
    turn = (await show(world, session))["last_turn"]
    assert (turn["state"], turn["yield_reason"]) == ("error", "error")
    assert turn["error"] == {
        "code": "credential_missing",
        "message": "The key was deleted.",
        "retriable": True,
    }


async def test_usage_adds_up_and_says_what_is_not_known(world: SessionWorld, worker: Worker) -> None:
    session = await world.new()
    await worker.whole(session, usage=USAGE)
    await say(world, session)
    await worker.whole(session, usage=Usage(1, 2, 3, 4, complete=False))
    usage = (await show(world, session))["usage"]
    assert usage == {
        "active_seconds": 5,
        "reported_turns": 2,
        "unreported_turns": 0,
        "complete": False,
        "input_tokens": 101,
        "output_tokens": 22,
        "cache_creation_input_tokens": 6,
        "cache_read_input_tokens": 8,
        "tokens": 137,
        "attribution": "exact",
    }
    newest = (await show(world, f"{session}/turns"))["data"][0]
    assert newest["usage"]["complete"] is False
    assert "total_cost_usd" not in newest["usage"]


async def test_a_turn_that_nobody_reported_makes_the_totals_a_lower_bound(
    world: SessionWorld, worker: Worker
) -> None:
    session = await world.new()
    await worker.whole(session)
    usage = (await show(world, session))["usage"]
    assert (usage["unreported_turns"], usage["complete"]) == (1, False)
    assert "tokens" not in usage
    assert (await show(world, f"{session}/turns"))["data"][0]["usage"] == {"reported": False}


async def test_turns_are_newest_first_and_come_in_pages(world: SessionWorld, worker: Worker) -> None:
    session = await world.new()
    await worker.whole(session)
    for _ in range(2):
        await say(world, session)
        await worker.whole(session)
    listed = await show(world, f"{session}/turns")
    assert [turn["input_from_seq"] for turn in listed["data"]] == sorted(
        (turn["input_from_seq"] for turn in listed["data"]), reverse=True
    )
    assert (len(listed["data"]), listed["next_cursor"]) == (3, None)
    first = await show(world, f"{session}/turns?limit=2")
    second = await show(world, f"{session}/turns?limit=2&cursor={first['next_cursor']}")
    assert first["data"] + second["data"] == listed["data"]
    assert second["next_cursor"] is None
    other = await world.new()
    answer = await world.client.get(f"/sessions/{other}/turns?cursor={first['next_cursor']}")
    error_of(answer, 400, "invalid", "cursor")
    error_of(await world.client.get(f"/sessions/{session}/turns?limit=x"), 400, "invalid", "limit")


async def test_a_turn_is_found_in_its_own_session_only(world: SessionWorld) -> None:
    made, other = (await world.create())["session"], await world.new()
    turn = made["last_turn"]["id"]
    error_of(await world.client.get(f"/sessions/{other}/turns/{turn}"), 404, "not_found")
    error_of(await world.client.get(f"/sessions/{made['id']}/turns/trn_1"), 404, "not_found")


async def test_the_result_is_what_the_newest_turn_came_to(world: SessionWorld, worker: Worker) -> None:
    session = await world.new()
    before = await show(world, f"{session}/result")
    assert (before["last_turn"]["state"], before["result"]) == ("queued", None)
    await worker.whole(session, text="42")
    found = await show(world, f"{session}/result")
    assert found["last_turn"] == (await show(world, session))["last_turn"]
    result = found["result"]
    assert result["id"] == found["last_turn"]["result_event_id"]
    assert (result["type"], result["level"], result["body"]) == ("agent.message", "user", {"text": "42"})
    assert result["session"] == session
    # A newer turn has none yet.
    await say(world, session)
    assert (await show(world, f"{session}/result"))["result"] is None


async def test_canceling_what_waits_ends_it(world: SessionWorld) -> None:
    session = await world.new()
    answer = ok(await world.client.post(f"/sessions/{session}/cancel"))
    assert answer["ok"] is True
    assert answer["session"].keys() == {"id", "status", "head"}
    shown = await show(world, session)
    assert (shown["status"], shown["last_turn"]["yield_reason"]) == ("idle", "canceled")
    assert (answer["session"]["status"], answer["session"]["head"]) == (shown["status"], shown["head"])


async def test_canceling_what_runs_asks_it_to_stop(world: SessionWorld, worker: Worker) -> None:
    session = await world.new()
    claim = await worker.begin(session)
    ok(await world.client.post(f"/sessions/{session}/cancel", json={}))
    now = world.clock.now()
    flags = await world.tables.turns.renew(claim, now + timedelta(seconds=30))
    assert flags.cancel_requested_at is not None
    await worker.end(claim, YieldReason.CANCELED)
    shown = await show(world, session)
    assert (shown["status"], shown["last_turn"]["yield_reason"]) == ("idle", "canceled")


async def test_canceling_nothing_is_no_error(world: SessionWorld, worker: Worker) -> None:
    session = await world.new()
    await worker.whole(session, reason=YieldReason.NEEDS_INPUT)
    head = (await show(world, session))["head"]
    answer = ok(await world.client.post(f"/sessions/{session}/cancel", content=b"not even json"))
    assert answer["session"] == {"id": session, "status": "awaiting_input", "head": head}


async def test_archiving_is_for_good_and_may_be_asked_for_twice(world: SessionWorld, worker: Worker) -> None:
    session = await world.new()
    await worker.begin(session)
    first = ok(await world.client.post(f"/sessions/{session}/archive"))
    assert (first["ok"], first["session"]["status"]) == (True, "archived")
    assert ok(await world.client.post(f"/sessions/{session}/archive", json={})) == first
    assert ok(await world.client.post(f"/sessions/{session}/cancel"))["session"]["status"] == "archived"
    shown = await show(world, session)
    assert (shown["status"], shown["last_turn"]["yield_reason"]) == ("archived", "canceled")
    assert (await show(world, f"{session}/turns"))["data"][0]["state"] == "ok"
