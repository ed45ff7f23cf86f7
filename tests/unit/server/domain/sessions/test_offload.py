from __future__ import annotations

import hashlib
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opencomputer.server.domain.sessions.events import Content, Level, NewEvent
from opencomputer.server.domain.sessions.offload import (
    MAX_BODY_BYTES,
    body_bytes,
    content_ref,
    offloaded,
    with_output,
)

_HUGE = "x" * 50_000


def _event(body: dict[str, object]) -> NewEvent:
    return NewEvent("agent.message", Level.USER, body)


def test_a_small_body_stays() -> None:
    event = _event({"text": "x" * (MAX_BODY_BYTES - len('{"text":""}'))})
    assert body_bytes(event.body) == MAX_BODY_BYTES
    assert offloaded(event) is event
    assert offloaded(_event({"text": event.body["text"] + "x"})).content is not None


@pytest.mark.parametrize(
    "body",
    [
        {"text": _HUGE, "code": "a"},
        {"text": "ä" * 200_000, "raw": {"blocks": [{"text": _HUGE}, 1]}},
        {"text": "short", "raw": list(range(20_000))},
        {f"member {each}": "value" * 20 for each in range(2_000)},
        {"raw": [["deep" * 100] * 100] * 10, "n": 1},
        {"text": "\udc80" * 40_000},
    ],
)
def test_a_large_body_is_cut_and_kept_whole_beside(body: dict[str, object]) -> None:
    event = offloaded(_event(body))
    assert 2 < body_bytes(event.body) <= MAX_BODY_BYTES
    assert event.content is not None
    assert event.content.media_type == "application/json"
    assert json.loads(event.content.data) == body
    assert set(event.body) <= set(body)
    assert offloaded(event) is event


def test_small_members_stay_as_they_are() -> None:
    event = offloaded(_event({"text": _HUGE, "awaiting_input": True, "code": "a", "n": 3}))
    text = event.body["text"]
    assert {**event.body, "text": None} == {"text": None, "awaiting_input": True, "code": "a", "n": 3}
    assert text.endswith("…")
    assert _HUGE.startswith(text[:-1])


def test_the_output_of_a_command_is_its_content() -> None:
    event = with_output(_event({"command": "ls", "summary": "a"}), b"\xffall")
    digest = "sha256:" + hashlib.sha256(b"\xffall").hexdigest()
    assert event.body == {"command": "ls", "summary": "a", "content_ref": digest, "bytes": 4}
    assert event.content == Content("text/plain; charset=utf-8", b"\xffall")
    assert content_ref(Content("", b"\xffall")) == digest
    # It stays that, also when the rest is too large.
    assert offloaded(_with_text(event)).content == event.content


def _with_text(event: NewEvent) -> NewEvent:
    return NewEvent(event.type, event.level, {**event.body, "text": _HUGE}, content=event.content)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=50) | st.just(_HUGE),
    lambda each: st.lists(each, max_size=5) | st.dictionaries(st.text(max_size=8), each, max_size=5),
    max_leaves=20,
)


@settings(max_examples=30, deadline=None)
@given(body=st.dictionaries(st.text(max_size=8), _JSON, max_size=8))
def test_whatever_it_is_it_fits(body: dict[str, object]) -> None:
    event = offloaded(_event(body))
    assert body_bytes(event.body) <= MAX_BODY_BYTES
    assert (event.content is None) == (event.body == body)
