"""The scripted model, over the Responses API."""

from __future__ import annotations

import json
from typing import Any

import pytest

from opencomputer.server.models.responses import read_responses
from opencomputer.server.models.script import parse_script
from opencomputer.server.models.scripted import ScriptedModel
from tests.unit.server.models.asking import Answered, NotedClock, ask, request

pytestmark = pytest.mark.anyio

TOOLS: list[dict[str, Any]] = [
    {"type": "function", "name": "view_image"},
    {"type": "namespace", "name": "mcp__oc", "tools": [{"type": "function", "name": "bash"}]},
]
CALL = {"tool": "mcp__oc__bash", "input": {"command": "true"}}


def user(text: str) -> dict[str, Any]:
    return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}


def said(text: str) -> dict[str, Any]:
    return {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}


def result(text: str) -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": "c", "output": text}


async def answered(*replies: Any, body: dict[str, Any] | None = None, **fields: Any) -> Answered:
    model = ScriptedModel(parse_script({"otherwise": list(replies)}), NotedClock())
    whole = body or {"model": "gpt-test", "input": [user("x")], "tools": TOOLS, "stream": True, **fields}
    return await ask(model, request(whole, path="/v1/responses"))


async def test_text_is_streamed_and_completed_with_usage() -> None:
    events = (await answered([{"text": "one two"}])).events
    assert [event["type"] for event in events] == [
        "response.created",
        "response.output_item.added",
        "response.output_text.delta",
        "response.output_text.delta",
        "response.output_item.done",
        "response.completed",
    ]
    response = events[-1]["response"]
    assert response["output"][0]["content"][0]["text"] == "one two"
    assert response["usage"]["total_tokens"] > response["usage"]["output_tokens"] > 0


async def test_a_tool_of_a_server_is_called_in_its_namespace() -> None:
    events = (await answered([CALL, {"tool": "view_image", "input": {"path": "/x"}}])).events
    first, second = [event["item"] for event in events if event["type"] == "response.output_item.done"]
    assert (first["namespace"], first["name"], json.loads(first["arguments"])) == (
        "mcp__oc",
        "bash",
        {"command": "true"},
    )
    assert second["name"] == "view_image"
    assert "namespace" not in second


async def test_failures_come_at_the_start_or_in_the_stream() -> None:
    failure = {"error": {"status": 429, "type": "rate_limit", "message": "slow down"}}
    at_once = await answered([failure])
    assert (at_once.status, at_once.json["error"]["message"]) == (429, "slow down")
    late = (await answered([{"text": "so"}, failure])).events
    assert late[-1]["response"]["error"] == {"code": "rate_limit", "message": "slow down"}


async def test_without_a_stream_it_is_one_document() -> None:
    whole = await answered([{"text": "one"}], stream=False)
    assert (whole.json["status"], whole.json["output"][0]["role"]) == ("completed", "assistant")


@pytest.mark.parametrize("body", [{"input": "x"}, {"model": "gpt-test"}])
async def test_requests_that_lack_something_are_refused(body: dict[str, Any]) -> None:
    refused = await answered([], body=body)
    assert (refused.status, refused.json["error"]["type"]) == (400, "invalid_request_error")


def test_a_conversation_is_read_as_the_engine_tells_it() -> None:
    """Its own additions are no prompts, and all items of one answer are one reply."""
    call = {"type": "function_call", "name": "bash", "call_id": "c", "arguments": "{}"}
    two = {"type": "input_text", "text": "two"}
    items: list[Any] = [
        {"type": "message", "role": "developer", "content": "Be brief."},
        user("<environment_context>\n<cwd>/work</cwd></environment_context>"),
        user("first"),
        said("done"),
        user("second"),
        {"type": "reasoning", "summary": []},
        said("let me see"),
        call,
        result("one"),
        call,
        {**result(""), "output": [{"type": "input_text", "text": "Wall time: 0.1 seconds\nOutput:"}, two]},
    ]
    conversation = read_responses({"input": items, "tools": TOOLS})
    assert conversation.prompts == ("first", "second")
    assert (conversation.replies_given, conversation.result, conversation.cwd) == (2, "two", "/work")
    assert conversation.offers_tools


@pytest.mark.parametrize("value", [None, 5, "text", [5, {}], {"a": 1}])
def test_any_input_can_be_read(value: Any) -> None:
    assert read_responses({"input": value}).replies_given == 0
