"""What the scripted model understands of a request: the last prompt, and how far its answer has come.

Everything is read from the request itself, as a model would. Nothing is remembered between requests, so
that any number of sessions, resumed and forked ones included, can be answered by one script.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from opencomputer.server.contracts.driver import Json

DEFAULT_CWD = "/home/sandbox"

# What the engine puts into a user message beside the user's words: <system-reminder>…</system-reminder>.
_ADDITION = re.compile(r"<(system-reminder|local-command-[a-z]+|command-[a-z]+)>")
_INTERRUPTION = re.compile(r"\[Request interrupted by user[^\]]{0,40}\]")
_CWD_LABEL = "orking directory: /"
_CWD = re.compile(r"(/[^\n\"<]{0,4095}?)(?: \(was [^\n]*\))?$", re.MULTILINE)


@dataclass(frozen=True)
class Conversation:
    """One request, reduced to what a script can depend on.

    `prompts` are the user's own words, oldest first, without what the engine adds to them.
    `replies_given` counts the assistant's messages since the last prompt. `result` is the text of the
    latest tool result. `offers_tools` is False for the engine's side calls (titles, summaries).
    """

    prompts: tuple[str, ...]
    replies_given: int
    result: str
    cwd: str
    offers_tools: bool

    @property
    def prompt(self) -> str:
        return self.prompts[-1] if self.prompts else ""


def read_conversation(body: Mapping[str, Json]) -> Conversation:
    """Read a Messages API request. Tolerates every shape: what is not understood is not there."""
    prompts: list[str] = []
    replies_given = 0
    result = ""
    for message in _objects(body.get("messages")):
        if message.get("role") == "assistant":
            replies_given += 1
        if message.get("role") != "user":
            # The engine also writes system messages between the others.
            continue
        blocks = _blocks(message.get("content"))
        result = _last_result(blocks) or result
        if said := _prompts(blocks):
            prompts += said
            replies_given = 0
    return Conversation(
        prompts=tuple(prompts),
        replies_given=replies_given,
        result=result,
        cwd=_working_directory(body),
        offers_tools=bool(_objects(body.get("tools"))),
    )


def text_of(content: Json) -> str:
    """All text in a message's or tool result's content, additions of the engine left out."""
    texts = [_without_additions(str(block.get("text", ""))) for block in _blocks(content)]
    return "\n".join(text for text in texts if text)


def _prompts(blocks: Sequence[Mapping[str, Json]]) -> Sequence[str]:
    # One block is one prompt. Prompts which the model left unanswered share a message with the next one.
    texts = (str(block.get("text", "")) for block in blocks if block.get("type") == "text")
    own_words = (_INTERRUPTION.sub("", _without_additions(text)).strip() for text in texts)
    return [words for words in own_words if words]


def _last_result(blocks: Sequence[Mapping[str, Json]]) -> str:
    results = [block for block in blocks if block.get("type") == "tool_result"]
    return text_of(results[-1].get("content")) if results else ""


def _working_directory(body: Mapping[str, Json]) -> str:
    texts = [str(block.get("text", "")) for block in _blocks(body.get("system"))]
    for message in _objects(body.get("messages")):
        if message.get("role") != "assistant":
            texts += [str(block.get("text", "")) for block in _blocks(message.get("content"))]
    named = [found for text in texts if (found := _last_directory(text))]
    return named[-1] if named else DEFAULT_CWD


def _last_directory(text: str) -> str | None:
    # Only the last place is looked at closely: what comes from a machine must not cost its length squared.
    label = text.rfind(_CWD_LABEL)
    match = _CWD.match(text, label + len(_CWD_LABEL) - 1) if label >= 0 else None
    return match.group(1).strip() if match else None


def _without_additions(text: str) -> str:
    kept: list[str] = []
    position = 0
    unclosed: set[str] = set()
    for opening in _ADDITION.finditer(text):
        tag = opening.group(1)
        if opening.start() < position or tag in unclosed:
            continue
        closing = f"</{tag}>"
        end = text.find(closing, opening.end())
        if end < 0:
            # Looked for once and never again: a request full of such tags must not cost its length squared.
            unclosed.add(tag)
            continue
        kept.append(text[position : opening.start()])
        position = end + len(closing)
    return "".join([*kept, text[position:]]).strip()


def _blocks(content: Json) -> Sequence[Mapping[str, Json]]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return _objects(content)


def _objects(value: Json) -> Sequence[Mapping[str, Json]]:
    if not isinstance(value, list):
        return []
    return [cast("Mapping[str, Json]", item) for item in value if isinstance(item, dict)]
