"""A model that answers from a script. It speaks the Messages and the Responses API."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

from opencomputer.server.contracts.clock import Clock
from opencomputer.server.contracts.driver import Json
from opencomputer.server.contracts.models import ModelRequest, ModelResponse
from opencomputer.server.models import responses
from opencomputer.server.models.answering import Answer, estimated_tokens
from opencomputer.server.models.conversation import Conversation, read_conversation
from opencomputer.server.models.offered_tools import OfferedTools
from opencomputer.server.models.replies import (
    RequestTooLarge,
    error_reply,
    is_offered,
    json_reply,
    refuse_unknown,
    within_cap,
)
from opencomputer.server.models.responses import ResponsesAnswer, ToolNames, read_responses
from opencomputer.server.models.script import (
    Failure,
    Hang,
    Reply,
    Script,
    Step,
    Text,
    ToolUse,
    Wait,
    load_script,
)

MODEL_NAME = "claude-sonnet-4-20250514"
"""The one model it lists. It answers under whatever name it is asked for."""

_HANG_SECONDS = 3600.0
_STREAM_HEADERS = (("content-type", "text/event-stream; charset=utf-8"), ("cache-control", "no-cache"))


class ScriptedModel:
    """Answers every request from a script: no key, no network, the same answer every time.

    It keeps nothing between requests. Requests which offer no tools get the script's words without its
    tool calls; requests for structured output get the smallest document that fits.
    """

    name = "scripted"
    providers = frozenset({"anthropic", "openai"})
    available = True

    def __init__(self, script: Script, clock: Clock) -> None:
        self._script = script
        self._clock = clock

    @classmethod
    def from_file(cls, path: Path | None, clock: Clock) -> ScriptedModel:
        """Read the script at `path`, or the one that comes with the server. Raises ScriptError."""
        return cls(load_script(path), clock)

    @asynccontextmanager
    async def answer(self, request: ModelRequest) -> AsyncGenerator[ModelResponse, None]:
        """Answer one request. See ModelProvider."""
        if (request.method, request.path) == ("POST", responses.PATH):
            yield await self._answer_responses(request)
        elif not is_offered(request):
            yield refuse_unknown(request)
        elif request.method == "GET":
            yield _models(request.path)
        else:
            yield await self._answer_post(request)

    async def close(self) -> None:
        """There is nothing to let go of."""

    async def _answer_post(self, request: ModelRequest) -> ModelResponse:
        try:
            raw = b"".join([chunk async for chunk in within_cap(request.body)])
            parsed = cast("Json", json.loads(raw))
        except RequestTooLarge:
            return error_reply(413, "The request is larger than 32 MB")
        except (ValueError, RecursionError):
            return error_reply(400, "The request body is not valid JSON")
        if problem := _problem(parsed):
            return error_reply(400, problem)
        body = cast("Mapping[str, Json]", parsed)
        if request.path.endswith("/count_tokens"):
            return json_reply(200, {"input_tokens": estimated_tokens(len(raw))})
        max_tokens = body.get("max_tokens")
        if not isinstance(max_tokens, int):
            return error_reply(400, "max_tokens: Field required")
        answer = Answer(str(body["model"]), estimated_tokens(len(raw)), max_tokens)
        return await self._message(body, answer)

    async def _message(self, body: Mapping[str, Json], answer: Answer) -> ModelResponse:
        return await self._spoken(answer, choose_steps(self._script, body), stream=body.get("stream") is True)

    async def _answer_responses(self, request: ModelRequest) -> ModelResponse:
        try:
            raw = b"".join([chunk async for chunk in within_cap(request.body)])
            parsed = cast("Json", json.loads(raw))
        except RequestTooLarge:
            return json_reply(413, responses.error_document(413, "The request is larger than 32 MB", None))
        except (ValueError, RecursionError):
            raw, parsed = b"", None
        if problem := responses.problem_of(parsed):
            return json_reply(400, responses.error_document(400, problem, None))
        body = cast("Mapping[str, Json]", parsed)
        answer = ResponsesAnswer(str(body["model"]), estimated_tokens(len(raw)), ToolNames.of(body))
        steps = _answering(self._script, read_responses(body), OfferedTools.of(body))
        return await self._spoken(answer, steps, stream=body.get("stream") is True)

    async def _spoken(self, answer: Answer | ResponsesAnswer, steps: Reply, *, stream: bool) -> ModelResponse:
        steps = await self._waited(steps)
        failure = next((step for step in steps if isinstance(step, Failure)), None)
        if failure is not None and (not stream or failure is steps[0]):
            return json_reply(failure.status, answer.refusal(failure))
        events = self._stream(answer, steps)
        if stream:
            return ModelResponse(200, _STREAM_HEADERS, events)
        async for _ in events:
            pass
        return json_reply(200, answer.document())

    async def _waited(self, steps: Reply) -> Reply:
        """Spend the waits that come before anything is said: the caller sees no answer yet."""
        for position, step in enumerate(steps):
            if not isinstance(step, Wait):
                return steps[position:]
            await self._clock.sleep(step.seconds)
        return ()

    async def _stream(self, answer: Answer | ResponsesAnswer, steps: Reply) -> AsyncIterator[bytes]:
        yield answer.begin()
        for step in steps:
            match step:
                case Wait():
                    await self._clock.sleep(step.seconds)
                case Hang():
                    await self._clock.sleep(_HANG_SECONDS)
                case Failure():
                    yield answer.fail(step)
                    return
                case Text() | ToolUse():
                    pace = step.pace_seconds if isinstance(step, Text) else 0.0
                    for event in answer.step(step):
                        yield event
                        if pace:
                            await self._clock.sleep(pace)
        yield answer.end()


def choose_steps(script: Script, body: Mapping[str, Json]) -> Reply:
    """What to do about a messages request, probes and side calls of the engine included."""
    if body.get("max_tokens") == 1:
        return (Text("."),)
    if schema := _schema(body):
        return (Text(json.dumps(smallest_document(schema, _title(read_conversation(body))))),)
    return _answering(script, read_conversation(body), OfferedTools.of(body))


def _answering(script: Script, conversation: Conversation, tools: OfferedTools) -> Reply:
    steps = tools.fitted(script.reply_to(tools.fit(conversation)))
    if not conversation.offers_tools:
        steps = tuple(step for step in steps if not isinstance(step, ToolUse))
    return steps if any(_is_an_answer(step) for step in steps) else (*steps, Text("OK."))


def smallest_document(schema: Json, text: str, *, depth: int = 16) -> Json:
    """The smallest document that fits a simple JSON schema, with `text` wherever a string is wanted."""
    if not isinstance(schema, dict) or depth == 0:
        return None
    options = schema.get("enum")
    if isinstance(options, list) and options:
        return options[0]
    match schema.get("type"):
        case "object":
            inner = schema.get("properties")
            properties = inner if isinstance(inner, dict) else {}
            return {name: smallest_document(each, text, depth=depth - 1) for name, each in properties.items()}
        case "array":
            return []
        case "boolean":
            return False
        case "integer" | "number":
            return 0
        case "null":
            return None
        case _:
            return text


def _is_an_answer(step: Step) -> bool:
    return not isinstance(step, Wait)


def _title(conversation: Conversation) -> str:
    return " ".join(conversation.prompt.split()[:6]) or "Untitled"


def _schema(body: Mapping[str, Json]) -> Json:
    config = body.get("output_config")
    nested = config.get("format") if isinstance(config, dict) else None
    wanted = nested or body.get("output_format")
    return wanted.get("schema") if isinstance(wanted, dict) and wanted.get("type") == "json_schema" else None


def _problem(body: Json) -> str | None:
    if not isinstance(body, dict):
        return "The request body must be an object"
    if not isinstance(body.get("model"), str):
        return "model: Field required"
    messages = body.get("messages")
    if not isinstance(messages, list):
        return "messages: Field required"
    return None if messages else "messages: at least one message is required"


def _models(path: str) -> ModelResponse:
    name = path.removeprefix("/v1/models").strip("/")
    entry: dict[str, Json] = {
        "type": "model",
        "id": name or MODEL_NAME,
        "display_name": "Scripted model",
        "created_at": "2025-05-14T00:00:00Z",
    }
    if name:
        return json_reply(200, entry)
    page: dict[str, Json] = {
        "data": [entry],
        "has_more": False,
        "first_id": MODEL_NAME,
        "last_id": MODEL_NAME,
    }
    return json_reply(200, page)
