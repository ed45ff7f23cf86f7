"""What an agent's words mean for whoever waits for it."""

from __future__ import annotations

import pytest

from opencomputer import AgentEvent
from opencomputer.sdk.agent_events import LineSplitter, TextDecoder, TurnTracker, event_from


def event(kind: str) -> AgentEvent:
    return AgentEvent(kind)


def test_an_event_gives_its_fields_by_name() -> None:
    known = AgentEvent("result", {"subtype": "success"})
    assert known["type"] == "result"
    assert known["subtype"] == "success"
    assert known.get("missing", 7) == 7
    assert "subtype" in known
    assert "type" in known
    assert "missing" not in known
    assert list(known.keys()) == ["subtype"]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (b'{"type":"ready"}', AgentEvent("ready")),
        (b'{"type":"brand_new","x":[1]}', AgentEvent("brand_new", {"x": [1]})),
        (b'{"no":"type"}', AgentEvent("unknown", {"no": "type"})),
        (b"[1]", None),
        (b"plain words", None),
        (b'{"cut', None),
    ],
)
def test_lines_are_events_or_something_else(line: bytes, expected: AgentEvent | None) -> None:
    assert event_from(line) == expected


def test_lines_are_cut_whatever_the_pieces() -> None:
    splitter = LineSplitter()
    text = '{"a":"☕"}\r\n\n\n{"b":2}\nunfinished'.encode()
    lines = [line for byte in text for line in splitter.feed(bytes([byte]))]
    assert [*lines, *splitter.flush()] == ['{"a":"☕"}'.encode(), b'{"b":2}', b"unfinished"]


def test_text_in_pieces_has_only_its_own_bad_bytes_replaced() -> None:
    decoder = TextDecoder()
    text = "".join(decoder.feed(bytes([byte])) for byte in "☕".encode() + b"\xff!")
    assert text == "☕\ufffd!"


@pytest.mark.parametrize(("kind", "code"), [("turn_complete", 0), ("error", 1), ("interrupted", 130)])
def test_each_end_of_a_turn_has_its_code(kind: str, code: int) -> None:
    turns = TurnTracker(prompts=1)
    turns.heard(event("assistant"))
    assert not turns.idle
    turns.heard(event(kind))
    assert turns.idle
    assert turns.turn_code == code


def test_the_agent_is_idle_only_when_all_prompts_are_done() -> None:
    turns = TurnTracker(prompts=1)
    turns.replay_ended()
    turns.prompted()
    turns.heard(event("turn_complete"))
    assert not turns.idle
    turns.heard(event("turn_complete"))
    assert turns.idle


def test_a_turn_of_the_past_is_not_the_one_that_was_asked_for_while_it_is_replayed() -> None:
    turns = TurnTracker(prompts=0)
    turns.prompted()
    turns.heard(event("turn_complete"))
    turns.replay_ended()
    assert not turns.idle
    turns.heard(event("turn_complete"))
    assert turns.idle


def test_without_a_prompt_the_agent_is_idle() -> None:
    turns = TurnTracker(prompts=0)
    turns.heard(event("ready"))
    turns.heard(event("configured"))
    assert turns.idle


def test_a_turn_that_somebody_else_started_counts_as_work() -> None:
    turns = TurnTracker(prompts=0)
    turns.heard(event("assistant"))
    assert not turns.idle
    turns.heard(event("turn_complete"))
    assert turns.idle


_NOTICES = [AgentEvent("of_the_future"), AgentEvent("system", {"subtype": "task_notification"})]


@pytest.mark.parametrize("notice", _NOTICES)
def test_what_belongs_to_no_turn_is_no_work(notice: AgentEvent) -> None:
    turns = TurnTracker(prompts=1)
    turns.heard(event("turn_complete"))
    turns.heard(notice)
    assert turns.idle


@pytest.mark.parametrize("notice", _NOTICES)
def test_what_belongs_to_no_turn_does_not_make_its_frame_the_processs(notice: AgentEvent) -> None:
    turns = TurnTracker(prompts=1)
    turns.heard(event("turn_complete"))
    turns.heard(notice)
    turns.exit_frame(0)
    assert turns.exit_code(session_over=False) == -1


def test_the_opening_of_a_turn_is_work() -> None:
    turns = TurnTracker(prompts=0)
    turns.heard(AgentEvent("system", {"subtype": "init"}))
    assert not turns.idle


def test_the_frame_at_the_end_of_a_turn_is_not_the_end_of_the_process() -> None:
    turns = TurnTracker(prompts=1)
    turns.heard(event("turn_complete"))
    turns.exit_frame(0)
    assert turns.exit_code(session_over=False) == -1


def test_a_frame_that_no_turn_announced_is_the_end_of_the_process() -> None:
    turns = TurnTracker(prompts=1)
    turns.heard(event("turn_complete"))
    turns.exit_frame(0)
    turns.exit_frame(143)
    assert turns.exit_code(session_over=True) == 143


def test_a_proper_end_right_after_a_frame_makes_it_the_processs() -> None:
    """The turn's own frame may have gone to somebody else before."""
    turns = TurnTracker(prompts=0)
    turns.heard(event("turn_complete"))
    turns.exit_frame(3)
    assert turns.exit_code(session_over=True) == 3


def test_an_end_without_any_frame_is_a_lost_link() -> None:
    turns = TurnTracker(prompts=0)
    turns.heard(event("turn_complete"))
    turns.exit_frame(0)
    turns.heard(event("assistant"))
    assert turns.exit_code(session_over=True) == -1
