"""The scripted model, over the Messages API."""

from __future__ import annotations

import json
from typing import Any

import pytest

from opencomputer.server.models.replies import MAX_REQUEST_BYTES
from opencomputer.server.models.script import parse_script
from opencomputer.server.models.scripted import MODEL_NAME, ScriptedModel, smallest_document
from tests.unit.server.models.asking import NotedClock, ask, messages, request, tool_result

pytestmark = pytest.mark.anyio

TOOL = {"tool": "Bash", "input": {"command": "echo " + "long " * 40}}


def model(*replies: Any, clock: NotedClock | None = None) -> ScriptedModel:
    return ScriptedModel(parse_script({"otherwise": list(replies)}), clock or NotedClock())


async def test_text_is_streamed_in_pieces() -> None:
    """The order of events is that of the Messages API."""
    answered = await ask(model([{"text": "one two three"}]), request(messages("x", stream=True)))
    assert answered.headers["content-type"].startswith("text/event-stream")
    assert [event["type"] for event in answered.events] == [
        "message_start",
        "ping",
        "content_block_start",
        *["content_block_delta"] * 3,
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]
    deltas = [event["delta"] for event in answered.events if event["type"] == "content_block_delta"]
    assert "".join(delta["text"] for delta in deltas) == "one two three"


async def test_a_stream_tells_model_usage_and_why_it_stopped() -> None:
    """What clients account by."""
    events = (await ask(model([{"text": "hi"}]), request(messages("x", stream=True)))).events
    start = events[0]["message"]
    assert (start["model"], start["role"], start["content"], start["stop_reason"]) == (
        "claude-test",
        "assistant",
        [],
        None,
    )
    assert start["usage"]["input_tokens"] > 10
    assert events[-2]["delta"] == {"stop_reason": "end_turn", "stop_sequence": None}
    assert events[-2]["usage"]["output_tokens"] >= 1


async def test_a_tool_call_is_streamed_as_pieces_of_json() -> None:
    """An empty piece comes first, as from a model, and the stop reason asks for the result."""
    events = (await ask(model([{"text": "so"}, TOOL]), request(messages("x", stream=True)))).events
    start = next(event for event in events if event.get("index") == 1)
    assert (
        start["content_block"]["type"],
        start["content_block"]["name"],
        start["content_block"]["input"],
    ) == (
        "tool_use",
        "Bash",
        {},
    )
    pieces = [
        event["delta"]["partial_json"] for event in events if event.get("index") == 1 and "delta" in event
    ]
    assert (pieces[0], json.loads("".join(pieces))) == ("", TOOL["input"])
    assert len(pieces) > 3
    assert events[-2]["delta"]["stop_reason"] == "tool_use"


async def test_without_stream_the_answer_is_one_document() -> None:
    """With the same content."""
    body = (await ask(model([{"text": "so"}, TOOL]), request(messages("x")))).json
    assert [block["type"] for block in body["content"]] == ["text", "tool_use"]
    assert (body["content"][1]["input"], body["stop_reason"]) == (TOOL["input"], "tool_use")


async def test_the_answer_depends_on_the_request_alone() -> None:
    """Any number of sessions can be answered by one script."""
    provider = model([{"text": "first"}, TOOL], [{"text": "second: {{result}}"}])
    later = messages("x", "calls", tool_result("42"))
    for _ in range(2):
        assert (await ask(provider, request(later))).json["content"][0]["text"] == "second: 42"
        assert (await ask(provider, request(messages("x")))).json["content"][0]["text"] == "first"


async def test_an_error_at_the_start_is_a_status() -> None:
    """In the API's own shape, after the waits that come before it."""
    clock = NotedClock()
    failing = model([{"wait_seconds": 3}, {"error": {"status": 529, "message": "busy"}}], clock=clock)
    answered = await ask(failing, request(messages("x", stream=True)))
    assert (answered.status, clock.waits) == (529, [3])
    assert answered.json == {"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}


async def test_an_error_within_an_answer_is_an_event_that_ends_it() -> None:
    """Without a stream it is a status all the same."""
    provider = model([{"text": "well"}, {"error": {"status": 500, "message": "broken"}}])
    events = (await ask(provider, request(messages("x", stream=True)))).events
    assert events[-1] == {"type": "error", "error": {"type": "api_error", "message": "broken"}}
    assert (await ask(provider, request(messages("x")))).status == 500


async def test_waits_and_pace_are_kept_on_the_clock() -> None:
    """Between two words, and between two steps."""
    clock = NotedClock()
    provider = model([{"text": "a b", "pace_seconds": 0.5}, {"wait_seconds": 2}, {"hang": True}], clock=clock)
    await ask(provider, request(messages("x", stream=True)))
    assert clock.waits == [0.5, 0.5, 0.5, 0.5, 2, 3600]


async def test_the_first_words_do_not_wait_for_the_last() -> None:
    """An answer that hangs has said what comes before."""
    async with model([{"text": "begun"}, {"hang": True}]).answer(
        request(messages("x", stream=True))
    ) as response:
        seen = b""
        async for chunk in response.chunks:
            seen += chunk
            if b"begun" in chunk:
                break
    assert b"message_start" in seen


async def test_a_side_call_gets_words_only() -> None:
    """No tool is called that was not offered."""
    provider = model([TOOL])
    assert (await ask(provider, request(messages("x", tools=[])))).json["content"] == [
        {"type": "text", "text": "OK."}
    ]


async def test_a_probe_for_one_token_gets_one() -> None:
    """The engine asks like that whether a key works."""
    body = (await ask(model([TOOL]), request(messages("quota", max_tokens=1)))).json
    assert (len(body["content"]), body["stop_reason"]) == (1, "max_tokens")


async def test_structured_output_fits_its_schema() -> None:
    """Titles are asked for like that."""
    schema = {"type": "object", "properties": {"title": {"type": "string"}, "done": {"type": "boolean"}}}
    config = {"format": {"type": "json_schema", "schema": schema}}
    body = (await ask(model([TOOL]), request(messages("Fix the broken build", output_config=config)))).json
    assert json.loads(body["content"][0]["text"]) == {"title": "Fix the broken build", "done": False}


def test_a_hostile_schema_is_no_trouble() -> None:
    """Depth is bounded, and what is not a schema is nothing."""
    nested: Any = {}
    for _ in range(200):
        nested = {"type": "object", "properties": {"x": nested}}
    assert json.dumps(smallest_document(nested, "t")).count("x") == 16
    assert smallest_document({"type": "object", "properties": ["x"]}, "t") == {}
    assert smallest_document({"enum": ["a", "b"]}, "t") == "a"
    assert smallest_document([], "t") is None


async def test_tokens_are_counted_and_models_listed() -> None:
    """The other operations the gateway offers."""
    provider = model([])
    counted = await ask(
        provider, request({"model": "m", "messages": ["x"]}, path="/v1/messages/count_tokens")
    )
    assert counted.json["input_tokens"] > 5
    listed = await ask(provider, request(method="GET", path="/v1/models"))
    assert [entry["id"] for entry in listed.json["data"]] == [MODEL_NAME]
    one = await ask(provider, request(method="GET", path="/v1/models/claude-other"))
    assert one.json["id"] == "claude-other"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"{", "The request body is not valid JSON"),
        (b"[" * 100_000, "The request body is not valid JSON"),
        ([], "The request body must be an object"),
        ({}, "model: Field required"),
        ({"model": "m"}, "messages: Field required"),
        ({"model": "m", "messages": []}, "messages: at least one message is required"),
        ({"model": "m", "messages": ["x"]}, "max_tokens: Field required"),
    ],
)
async def test_a_bad_request_is_refused_as_by_the_api(body: object, message: str) -> None:
    """Same shape, same status."""
    answered = await ask(model([]), request(body))
    assert (answered.status, answered.json["error"]) == (
        400,
        {"type": "invalid_request_error", "message": message},
    )


async def test_too_large_a_request_is_refused() -> None:
    """Before it is in memory twice."""
    assert (await ask(model([]), request(b"x" * (MAX_REQUEST_BYTES + 2)))).status == 413


@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", "/v1/files"), ("GET", "/v1/messages"), ("DELETE", "/v1/models/x"), ("GET", "/v1/models/../x")],
)
async def test_other_operations_are_not_found(method: str, path: str) -> None:
    """The gateway is for models only."""
    answered = await ask(model([]), request({}, method=method, path=path))
    assert (answered.status, answered.json["error"]["type"]) == (404, "not_found_error")
