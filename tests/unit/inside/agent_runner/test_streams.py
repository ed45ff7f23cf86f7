"""Lines in, events out."""

from __future__ import annotations

import json
import os

import pytest

from opencomputer.inside.agent_runner import events
from opencomputer.inside.agent_runner.events import EventWriter
from opencomputer.inside.agent_runner.lines import LineSplitter, read_lines


def test_lines_are_cut_wherever_the_pieces_end() -> None:
    """A piece may hold half a line or many."""
    splitter = LineSplitter()
    cut = [line for piece in (b"a", b"b\nc\n", b"", b"\nd") for line in splitter.push(piece)]
    assert (cut, splitter.flush()) == ([b"ab", b"c", b""], b"d")


def test_a_line_that_is_too_long_is_dropped_and_the_next_one_is_whole() -> None:
    """Memory stays bounded however long the line is."""
    splitter = LineSplitter(max_line_bytes=4)
    cut = [line for piece in (b"12345", b"6789", b"0\nok\n12345\nfin") for line in splitter.push(piece)]
    assert (cut, splitter.flush()) == ([None, b"ok", None], b"fin")


def test_the_unfinished_rest_of_a_long_line_is_not_a_line() -> None:
    """Its end is missing and its beginning is gone."""
    splitter = LineSplitter(max_line_bytes=4)
    assert list(splitter.push(b"123456")) == []
    assert splitter.flush() == b""


@pytest.mark.anyio
async def test_input_is_read_from_a_pipe_to_its_end() -> None:
    """The last line needs no newline."""
    reading, writing = os.pipe()
    os.write(writing, b'{"a":1}\n{"b":2}')
    os.close(writing)
    try:
        assert [line async for line in read_lines(reading)] == [b'{"a":1}', b'{"b":2}']
    finally:
        os.close(reading)


def test_an_event_is_one_line_of_ascii() -> None:
    """A client that decodes each piece of a split line by itself still reads it right."""
    reading, writing = os.pipe()
    try:
        EventWriter(writing, lambda: None).emit({"type": "x", "text": "grüße\n\ud800 😀"})
        line = os.read(reading, 1000)
    finally:
        os.close(reading)
        os.close(writing)
    assert (line.count(b"\n"), line.isascii()) == (1, True)
    assert json.loads(line) == {"type": "x", "text": "grüße\n\ud800 😀"}


def test_a_reader_that_is_gone_is_reported() -> None:
    """The runner then has nobody to work for."""
    reading, writing = os.pipe()
    os.close(reading)
    broken: list[bool] = []
    try:
        EventWriter(writing, lambda: broken.append(True)).emit(events.READY)
    finally:
        os.close(writing)
    assert broken == [True]


def test_waiting_prompts_are_mentioned_only_when_there_are_some() -> None:
    """Their absence means that the session is idle."""
    assert events.turn_complete("s", 0) == {"type": "turn_complete", "claude_session_id": "s"}
    assert events.interrupted(2) == {"type": "interrupted", "pending_prompts": 2}
    assert events.error("m", 1) == {"type": "error", "message": "m", "pending_prompts": 1}


def test_a_long_error_is_cut() -> None:
    """A page of HTML from some proxy does not hide the end of a turn."""
    message = events.error("x" * 100_000, 0)["message"]
    assert isinstance(message, str)
    assert (len(message), message[-1]) == (events.MAX_ERROR_CHARACTERS, "…")
