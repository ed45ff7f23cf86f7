"""The Responses API, as far as an engine uses it of a model: reading requests, streaming answers."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from opencomputer.server.contracts.driver import Json
from opencomputer.server.models.conversation import DEFAULT_CWD, Conversation
from opencomputer.server.models.script import Failure, Step, Text, ToolUse

PATH = "/v1/responses"

# What the engine says in the user's place: <environment_context>…</environment_context> and the like.
_ADDITION = re.compile(r"\s*<(environment_context|user_instructions|turn_aborted|skills?_[a-z]+)>")
_CWD = re.compile(r"<cwd>([^<]{1,4096})</cwd>")
# What the engine writes above the result of a tool.
_HEADING = re.compile(r"\AWall time: [0-9.]{1,20} seconds\nOutput:\n?")
_OF_THE_MODEL = frozenset({"reasoning", "function_call", "custom_tool_call", "local_shell_call"})
_RESULTS = frozenset({"function_call_output", "custom_tool_call_output"})


def read_responses(body: Mapping[str, Json]) -> Conversation:
    """Read a request. Tolerates every shape: what is not understood is not there."""
    prompts: list[str] = []
    replies_given, result, cwd = 0, "", DEFAULT_CWD
    answering = False
    for item in _input(body.get("input")):
        kind, role = item.get("type", "message"), item.get("role")
        if kind in _OF_THE_MODEL or role == "assistant":
            # All items in a row are one answer.
            replies_given += not answering
            answering = True
            continue
        answering = False
        if kind in _RESULTS:
            result = _HEADING.sub("", _text(item.get("output")))
        elif role == "user":
            text = _text(item.get("content"))
            if named := _CWD.search(text):
                cwd = named.group(1)
            if text.strip() and not _ADDITION.match(text):
                prompts.append(text.strip())
                replies_given = 0
    return Conversation(tuple(prompts), replies_given, result, cwd, bool(_objects(body.get("tools"))))


def problem_of(body: Json) -> str | None:
    """What is wrong with a request, if anything."""
    if not isinstance(body, dict):
        return "The request body must be an object"
    if not isinstance(body.get("model"), str):
        return "Missing required parameter: 'model'."
    return None if body.get("input") else "Missing required parameter: 'input'."


def error_document(status: int, message: str, kind: str | None) -> Mapping[str, Json]:
    """The JSON document of an error."""
    otherwise = "server_error" if status >= 500 else "invalid_request_error"
    return {"error": {"message": message, "type": kind or otherwise, "param": None, "code": kind}}


@dataclass(frozen=True)
class ToolNames:
    """The tools of a request. Those of one server share a namespace: scripts join the two with `__`."""

    namespaces: tuple[str, ...]

    @classmethod
    def of(cls, body: Mapping[str, Json]) -> ToolNames:
        tools = _objects(body.get("tools"))
        return cls(tuple(str(tool.get("name")) for tool in tools if tool.get("type") == "namespace"))

    def call(self, name: str) -> Mapping[str, Json]:
        """The members by which a call names its tool."""
        for namespace in self.namespaces:
            if name.startswith(f"{namespace}__"):
                return {"namespace": namespace, "name": name.removeprefix(f"{namespace}__")}
        return {"name": name}


class ResponsesAnswer:
    """One response in the making. Each method gives the events that the step causes."""

    def __init__(self, model: str, input_tokens: int, names: ToolNames) -> None:
        self._id = f"resp_{uuid.uuid4().hex[:24]}"
        self._model = model
        self._input_tokens = input_tokens
        self._names = names
        self._output: list[Mapping[str, Json]] = []
        self._output_characters = 0

    def begin(self) -> bytes:
        return _event("response.created", response=self._response("in_progress"))

    def step(self, step: Step) -> Iterator[bytes]:
        """The events of one text or tool step."""
        if isinstance(step, Text):
            yield from self._text(step.text)
        elif isinstance(step, ToolUse):
            yield from self._tool_use(step)

    def end(self) -> bytes:
        return _event("response.completed", response=self.document())

    def refusal(self, step: Failure) -> Mapping[str, Json]:
        """The document of a failure."""
        return error_document(step.status, step.message, step.kind)

    def fail(self, step: Failure) -> bytes:
        """The event of a failure in the middle of an answer."""
        error: dict[str, Json] = {"code": step.kind or "server_error", "message": step.message}
        return _event("response.failed", response={**self._response("failed"), "error": error})

    def document(self) -> Mapping[str, Json]:
        """The whole response, as a request without `stream` is answered."""
        return self._response("completed")

    def _text(self, text: str) -> Iterator[bytes]:
        item: dict[str, Json] = {"type": "message", "id": f"msg_{uuid.uuid4().hex[:24]}", "role": "assistant"}
        index = len(self._output)
        yield _event("response.output_item.added", output_index=index, item={**item, "content": []})
        place: dict[str, Json] = {"item_id": item["id"], "output_index": index, "content_index": 0}
        for piece in re.findall(r"\S+\s*|\s+", text):
            self._output_characters += len(piece)
            yield _event("response.output_text.delta", **place, delta=piece)
        content: list[Json] = [{"type": "output_text", "text": text, "annotations": []}]
        yield self._done({**item, "status": "completed", "content": content})

    def _tool_use(self, step: ToolUse) -> Iterator[bytes]:
        arguments = json.dumps(step.input)
        self._output_characters += len(arguments)
        yield self._done(
            {
                "type": "function_call",
                "id": f"fc_{uuid.uuid4().hex[:24]}",
                "call_id": f"call_{uuid.uuid4().hex[:24]}",
                "status": "completed",
                "arguments": arguments,
                **self._names.call(step.name),
            }
        )

    def _done(self, item: Mapping[str, Json]) -> bytes:
        self._output.append(item)
        return _event("response.output_item.done", output_index=len(self._output) - 1, item=item)

    def _response(self, status: str) -> Mapping[str, Json]:
        return {
            "id": self._id,
            "object": "response",
            "status": status,
            "model": self._model,
            "output": list(self._output),
            "usage": None if status == "in_progress" else self._usage(),
        }

    def _usage(self) -> Mapping[str, Json]:
        output_tokens = max(1, self._output_characters // 4)
        return {
            "input_tokens": self._input_tokens,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": output_tokens,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": self._input_tokens + output_tokens,
        }


def _event(kind: str, **fields: Json) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n".encode()


def _input(value: Json) -> Sequence[Mapping[str, Json]]:
    return [{"role": "user", "content": value}] if isinstance(value, str) else _objects(value)


def _text(content: Json) -> str:
    if isinstance(content, str):
        return content
    texts = [block.get("text") for block in _objects(content)]
    return "\n".join(text for text in texts if isinstance(text, str))


def _objects(value: Json) -> Sequence[Mapping[str, Json]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []
