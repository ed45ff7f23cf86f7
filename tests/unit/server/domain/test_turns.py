"""Finding the ends of an agent's turns, however the output is cut into pieces (decision D10)."""

from __future__ import annotations

import itertools
import json
import tracemalloc
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from opencomputer.server.domain.turns import TurnEnd, TurnTracker


def line(**event: Any) -> bytes:
    return json.dumps(event).encode() + b"\n"


READY = line(type="ready")
SPEECH = line(type="assistant", message={"content": [{"type": "text", "text": 'I said "turn_complete"'}]})
COMPLETE = line(type="turn_complete", claude_session_id="c0ffee")
INTERRUPTED = line(type="interrupted")
FAILED = line(type="error", message="no", ends_turn=True)
QUEUED = line(type="turn_complete", claude_session_id="c0ffee", pending_prompts=2)
CONVERSATION = READY + SPEECH + COMPLETE + SPEECH + INTERRUPTED + QUEUED + SPEECH + FAILED


def ends_of(*pieces: bytes, offset: int = 0) -> list[TurnEnd]:
    tracker = TurnTracker()
    found: list[TurnEnd] = []
    for piece in pieces:
        found += tracker.feed(piece, offset)
        offset += len(piece)
    return found


@pytest.mark.parametrize(("event", "code"), [(COMPLETE, 0), (INTERRUPTED, 130), (FAILED, 1)])
def test_each_way_a_turn_ends_has_its_code(event: bytes, code: int) -> None:
    assert [(end.code, end.position) for end in ends_of(READY + event)] == [(code, len(READY + event))]


def test_the_session_to_resume_is_told() -> None:
    assert ends_of(COMPLETE)[0].claude_session_id == "c0ffee"
    assert ends_of(INTERRUPTED)[0].claude_session_id is None


def test_a_turn_with_prompts_waiting_behind_it_is_no_end() -> None:
    assert ends_of(QUEUED) == []


@pytest.mark.parametrize(
    "text",
    [
        READY,
        SPEECH,
        b'"turn_complete"\n',
        b'["turn_complete"]\n',
        b'{"type":["turn_complete"]}\n',
        b'{"type":"turn_complete"\n',
        b'{"type": "Turn_Complete"}\n',
        b'\xff\xfe{"type":"turn_complete"}\n',
        b"\n\n\n",
        b"null\n",
        b'{"message":{"type":"turn_complete"}}\n',
    ],
)
def test_what_only_looks_like_an_end_is_none(text: bytes) -> None:
    assert ends_of(text) == []


def test_a_line_that_has_not_ended_yet_decides_nothing() -> None:
    assert ends_of(COMPLETE[:-1]) == []


def test_positions_count_from_the_offset_of_the_output() -> None:
    assert ends_of(COMPLETE, offset=1000)[0].position == 1000 + len(COMPLETE)


@given(st.lists(st.integers(0, len(CONVERSATION)), max_size=40))
@example(list(range(len(CONVERSATION))))
def test_where_the_output_is_split_makes_no_difference(cuts: list[int]) -> None:
    edges = [0, *sorted(cuts), len(CONVERSATION)]
    pieces = [CONVERSATION[start:end] for start, end in itertools.pairwise(edges)]
    assert ends_of(*pieces) == ends_of(CONVERSATION)
    assert [end.code for end in ends_of(CONVERSATION)] == [0, 130, 1]


@given(st.binary(max_size=300), st.lists(st.integers(0, 300), max_size=10))
def test_no_bytes_break_it(data: bytes, cuts: list[int]) -> None:
    edges = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    pieces = [data[start:end] for start, end in itertools.pairwise(edges)]
    noise = ends_of(*pieces)
    assert ends_of(*pieces, b"\n", COMPLETE)[len(noise) :][-1].code == 0


def test_an_endless_line_costs_no_memory_and_the_next_line_counts_again() -> None:
    tracker = TurnTracker()
    piece = b"x" * (1 << 20)
    tracemalloc.start()
    try:
        for number in range(64):
            assert tracker.feed(piece, number << 20) == []
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4 << 20
    assert [end.code for end in tracker.feed(b"\n" + COMPLETE, 64 << 20)] == [0]


def test_the_depth_of_a_hostile_line_breaks_nothing() -> None:
    deep = b'{"type":"error","x":' + b"[" * 30_000 + b"]" * 30_000 + b"}\n"
    tracker = TurnTracker()
    tracker.feed(deep, 0)
    assert [end.code for end in tracker.feed(COMPLETE, len(deep))] == [0]
