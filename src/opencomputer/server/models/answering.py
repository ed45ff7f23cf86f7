"""How the Messages API puts an answer on the wire: as a stream of events, or as one document."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterator, Mapping, Sequence

from opencomputer.server.contracts.driver import Json
from opencomputer.server.models.replies import error_body
from opencomputer.server.models.script import Failure, Step, Text, ToolUse

_PIECE_CHARACTERS = 48


class Answer:
    """One assistant message in the making. Each method gives the events that the step causes."""

    def __init__(self, model: str, input_tokens: int, max_tokens: int) -> None:
        self._id = f"msg_{uuid.uuid4().hex[:24]}"
        self._model = model
        self._input_tokens = input_tokens
        self._max_tokens = max_tokens
        self._content: list[Mapping[str, Json]] = []
        self._output_characters = 0

    def begin(self) -> bytes:
        start = self._message(content=[], stop_reason=None, output_tokens=1)
        return _event("message_start", message=start) + _event("ping")

    def step(self, step: Step) -> Iterator[bytes]:
        """The events of one text or tool step, in pieces as a model would produce them."""
        if isinstance(step, Text):
            yield from self._text(step.text)
        elif isinstance(step, ToolUse):
            yield from self._tool_use(step)

    def end(self) -> bytes:
        delta: dict[str, Json] = {"stop_reason": self._stop_reason(), "stop_sequence": None}
        return _event("message_delta", delta=delta, usage=self._usage()) + _event("message_stop")

    def refusal(self, step: Failure) -> Mapping[str, Json]:
        """The document of a failure."""
        return error_body(step.status, step.message, kind=step.kind)

    def fail(self, step: Failure) -> bytes:
        """The event of a failure in the middle of an answer."""
        return f"event: error\ndata: {json.dumps(self.refusal(step))}\n\n".encode()

    def document(self) -> Mapping[str, Json]:
        """The whole message, as a request without `stream` is answered."""
        return self._message(self._content, self._stop_reason(), self._output_tokens())

    def _text(self, text: str) -> Iterator[bytes]:
        index = len(self._content)
        self._content.append({"type": "text", "text": text})
        yield _event("content_block_start", index=index, content_block={"type": "text", "text": ""})
        for piece in re.findall(r"\S+\s*|\s+", text):
            yield self._delta(index, {"type": "text_delta", "text": piece}, len(piece))
        yield _event("content_block_stop", index=index)

    def _tool_use(self, step: ToolUse) -> Iterator[bytes]:
        index = len(self._content)
        block: dict[str, Json] = {
            "type": "tool_use",
            "id": f"toolu_{uuid.uuid4().hex[:24]}",
            "name": step.name,
        }
        self._content.append({**block, "input": step.input})
        encoded = json.dumps(step.input)
        yield _event("content_block_start", index=index, content_block={**block, "input": {}})
        for piece in ["", *_pieces(encoded)]:
            yield self._delta(index, {"type": "input_json_delta", "partial_json": piece}, len(piece))
        yield _event("content_block_stop", index=index)

    def _delta(self, index: int, delta: Mapping[str, Json], characters: int) -> bytes:
        self._output_characters += characters
        return _event("content_block_delta", index=index, delta=delta)

    def _stop_reason(self) -> str:
        if self._content and self._content[-1]["type"] == "tool_use":
            return "tool_use"
        return "max_tokens" if self._max_tokens <= 1 else "end_turn"

    def _output_tokens(self) -> int:
        return max(1, self._output_characters // 4)

    def _usage(self) -> Mapping[str, Json]:
        return {
            "input_tokens": self._input_tokens,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0,
            "output_tokens": self._output_tokens(),
        }

    def _message(
        self, content: Sequence[Mapping[str, Json]], stop_reason: str | None, output_tokens: int
    ) -> Mapping[str, Json]:
        return {
            "id": self._id,
            "type": "message",
            "role": "assistant",
            "model": self._model,
            "content": list(content),
            "stop_reason": stop_reason,
            "stop_sequence": None,
            "usage": {**self._usage(), "output_tokens": output_tokens},
        }


def estimated_tokens(request_bytes: int) -> int:
    """A plausible number: about four characters a token."""
    return max(1, request_bytes // 4)


def _event(kind: str, **fields: Json) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n".encode()


def _pieces(text: str) -> list[str]:
    return [text[start : start + _PIECE_CHARACTERS] for start in range(0, len(text), _PIECE_CHARACTERS)]
