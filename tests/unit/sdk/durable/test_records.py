"""What the server says becomes records that keep all of it."""

from __future__ import annotations

import pytest

from opencomputer import UnexpectedAnswerError
from opencomputer.durable import (
    AgentMessage,
    Delivery,
    DurableAgent,
    ErrorEvent,
    ExecCompleted,
    SessionData,
    SessionEvent,
    TurnCompleted,
    UserMessage,
)
from opencomputer.sdk.durable.events import matches, read_event
from tests.unit.sdk.durable.answers import event_body, session_body


def test_what_is_not_known_is_kept() -> None:
    sent = session_body(mood="good", last_turn={"id": "trn_1", "state": "ok", "colour": "red"})
    session = SessionData.read(sent)
    assert session.raw == sent
    assert session.extra == {"mood": "good"}
    assert session.last_turn is not None
    assert session.last_turn.extra == {"colour": "red"}


def test_numbers_may_come_as_text() -> None:
    session = SessionData.read(session_body(head="12", input_cursor="3"))
    assert (session.head, session.input_cursor) == (12, 3)
    assert Delivery.read({"id": "dlv_1", "event_seq": "7", "attempts": "2"}).event_seq == 7


def test_what_must_be_there_is_missed() -> None:
    with pytest.raises(UnexpectedAnswerError, match="DurableAgent has no id"):
        DurableAgent.read({"name": "a"})
    with pytest.raises(UnexpectedAnswerError, match="seq"):
        read_event(event_body(1) | {"seq": "first"})


@pytest.mark.parametrize(
    ("type", "kind"),
    [
        ("user.message", UserMessage),
        ("agent.message", AgentMessage),
        ("turn.completed", TurnCompleted),
        ("exec.completed", ExecCompleted),
        ("error.model", ErrorEvent),
        ("error.of_the_future", ErrorEvent),
        ("something.new", SessionEvent),
    ],
)
def test_each_kind_of_event_has_its_class(type: str, kind: type[SessionEvent]) -> None:
    event = read_event(event_body(3, type, text="hello", unknown=[1]))
    assert event.__class__ is kind
    assert (event.seq, event.type, event.text) == (3, type, "hello")
    assert event.body["unknown"] == [1]


def test_events_can_be_matched_by_class() -> None:
    match read_event(event_body(1, "exec.completed", command="ls", exit_code="2", summary="out")):
        case ExecCompleted(command="ls", exit_code=2, summary=summary):
            assert summary == "out"
        case other:
            pytest.fail(repr(other))


def test_the_end_of_a_turn_says_why_in_either_spelling() -> None:
    old, new = ({name: "needs_input"} for name in ("yield_reason", "outcome"))
    for body in (old, new):
        event = read_event(event_body(1, "turn.completed", **body))
        assert isinstance(event, TurnCompleted)
        assert event.yield_reason == "needs_input"


@pytest.mark.parametrize(
    ("wanted", "passes"),
    [
        (None, True),
        ("tool.call", True),
        ("tool.*", True),
        ("*.call", True),
        ("tool", False),
        ("turn.*", False),
    ],
)
def test_types_are_matched_exactly_or_by_one_end(wanted: str | None, passes: bool) -> None:
    assert matches(read_event(event_body(1, "tool.call")), wanted) is passes
