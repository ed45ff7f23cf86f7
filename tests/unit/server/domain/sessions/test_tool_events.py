"""What the log says of tool calls, and what is told of those that an interrupted turn left behind."""

from __future__ import annotations

import pytest

from opencomputer.server.domain.sessions.events import TOOL_CALL, Event, NewEvent
from opencomputer.server.domain.sessions.naming import new_turn_id
from opencomputer.server.domain.sessions.tool_events import (
    Execution,
    ToolCall,
    answered,
    called,
    executed,
    interruption,
    message,
)
from opencomputer.wire.ids import OrgId
from tests.support.durable import MemoryLog, a_session, a_turn

TURN = new_turn_id()


def a_call(number: int, command: str) -> ToolCall:
    return ToolCall(f"x.{number}", TURN, "bash", {"command": command})


async def committed(*events: NewEvent) -> list[Event]:
    log = MemoryLog(a_turn(a_session(OrgId("org"))))
    await log.write(*events)
    return log.events


@pytest.mark.parametrize("output", [b"x" * 100_000, b"\xff\x00"])
def test_an_output_that_is_long_or_no_text_is_kept_byte_by_byte(output: bytes) -> None:
    event = executed(a_call(1, "yes"), Execution(0, output, 5))
    assert event.content is not None
    assert (event.content.media_type, event.content.data) == ("text/plain; charset=utf-8", output)
    assert event.body["bytes"] == len(output)
    assert len(event.body["summary"]) <= 400
    assert "output" not in event.body


def test_a_call_and_its_outcome_have_keys_of_their_own_and_one_reference() -> None:
    call = a_call(1, "make")
    events = [called(call), executed(call, Execution(0, b"", 1)), answered(call, "done", 1)]
    assert [event.key for event in events] == [
        f"{TURN}:tool:x.1:call",
        f"{TURN}:tool:x.1:result",
        f"{TURN}:tool:x.1:result",
    ]
    assert {str(event.refs) for event in events} == {"{'call': 'x.1'}"}


def test_a_message_is_the_same_however_often_an_attempt_says_it_again() -> None:
    keys = [
        message(TURN, text, nth, awaiting_input=asking).key
        for text, nth, asking in (("a", 1, False), ("a", 2, False), ("b", 1, False), ("a", 1, True))
    ]
    assert len(set(keys)) == 4
    assert message(TURN, "a", 1, awaiting_input=False).key == keys[0]


@pytest.mark.anyio
async def test_a_crash_leaves_calls_whose_outcome_is_reported_as_unknown() -> None:
    done, broken, looked = a_call(1, "make"), a_call(2, "make deploy"), ToolCall("x.3", TURN, "read", {})
    said = message(TURN, "made", 1, awaiting_input=False)
    log = [called(done), executed(done, Execution(0, b"", 1)), said, called(looked), called(broken)]
    past = interruption(await committed(*log))
    assert [each.call.id for each in past.unknown] == ["x.3", "x.2"]
    text = past.text()
    assert text is not None
    assert "unknown:\n- bash: make deploy\n" in text
    assert "- bash: make (exit code 0)" in text
    assert "- made" in text
    assert "- read" not in text
    notes = past.notes()
    assert [(note.refs["call"], note.body["unknown"]) for note in notes] == [("x.3", True), ("x.2", True)]
    again = interruption(await committed(*log, *notes))
    assert again.notes() == []
    assert [each.call.id for each in again.unknown] == ["x.3", "x.2"]


@pytest.mark.anyio
async def test_events_of_others_are_no_calls_of_ours() -> None:
    strange = [NewEvent(TOOL_CALL, said.level, {"tool": "web"}) for said in [called(a_call(1, "x"))]]
    assert interruption(await committed(*strange)).text() is None


def test_nothing_is_told_of_a_turn_that_did_nothing() -> None:
    assert interruption([]).text() is None
