from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from opencomputer.server.domain.sessions.events import API, Event, EventFilter, Level
from opencomputer.server.domain.sessions.naming import new_event_id, new_session_id, new_turn_id
from opencomputer.server.domain.sessions.patterns import passes, type_pattern, wants
from tests.support import session_rows as new
from tests.support.rows import organisation


@pytest.mark.parametrize(
    ("pattern", "matching", "others"),
    [
        ("agent.message", ["agent.message"], ["agent.messages", "agent", "Agent.message"]),
        ("agent.*", ["agent.message", "agent.a.b"], ["agent", "agents.message", "an.agent.message"]),
        ("*.message", ["agent.message", "user.message"], ["message", "agent.messages", "a.message.b"]),
        ("*", ["agent.message", "x"], []),
        ("a*", ["a*"], ["ab", "a.b"]),
    ],
)
def test_types(pattern: str, matching: list[str], others: list[str]) -> None:
    chosen = type_pattern(pattern)
    assert all(chosen.matches(each) for each in matching)
    assert not any(chosen.matches(each) for each in others)


def _event(**changes: Any) -> Event:
    event = Event(
        id=new_event_id(),
        session_id=new_session_id(),
        seq=5,
        at=new.at(),
        type="agent.message",
        level=Level.PROGRESS,
        body={},
        actor=API,
        turn_id=new_turn_id(),
        refs={},
        source=None,
    )
    return replace(event, **changes)


def test_a_filter_asks_for_everything_at_once() -> None:
    event = _event()
    assert passes(EventFilter(), event)
    assert passes(EventFilter(Level.PROGRESS, "agent.*", event.turn_id), event)
    assert not passes(EventFilter(Level.USER, "agent.*", event.turn_id), event)
    assert not passes(EventFilter(Level.PROGRESS, "turn.*", event.turn_id), event)
    assert not passes(EventFilter(Level.PROGRESS, "agent.*", new_turn_id()), event)


def test_a_destination_wants_what_came_after_it() -> None:
    session = new.session(organisation().id)
    destination = new.destination(session, level=Level.PROGRESS, created_after_seq=4)
    event = _event(session_id=session.id)
    assert wants(destination, event)
    assert wants(replace(destination, types=()), event)
    assert wants(replace(destination, types=("turn.*", "agent.*")), event)
    for not_wanted in (
        replace(destination, created_after_seq=5),
        replace(destination, level=Level.USER),
        replace(destination, enabled=False),
        replace(destination, types=("turn.*",)),
        replace(destination, session_id=new_session_id()),
    ):
        assert not wants(not_wanted, event)
