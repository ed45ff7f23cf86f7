"""The tools themselves: what each is called, what it takes, and what it does in the hands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from pydantic import BaseModel

from opencomputer.server.contracts.runtimes import Hands
from opencomputer.server.domain.sessions.events import NewEvent
from opencomputer.server.domain.sessions.excerpts import middle_out
from opencomputer.server.domain.sessions.tool_events import Execution, ToolCall, answered, executed
from opencomputer.wire.tools import (
    AskArguments,
    BashArguments,
    ListArguments,
    ReadArguments,
    SayArguments,
    WriteArguments,
)

MODEL_BYTES = 64 << 10
"""As much of one text as a model gets."""
LONGEST_COMMAND = timedelta(minutes=10)
_MOST_ENTRIES = 2000


@dataclass(frozen=True)
class ToolKind:
    name: str
    description: str
    arguments: type[BaseModel]

    @property
    def schema(self) -> Mapping[str, Any]:
        """What it takes, as JSON Schema."""
        return self.arguments.model_json_schema()


TOOLS: Mapping[str, ToolKind] = {
    kind.name: kind
    for kind in (
        ToolKind(
            "bash",
            "Run a command in a new shell of the work machine. Nothing carries over from one call to the "
            "next but files and background processes: use absolute paths, or begin with `cd /workspace &&`. "
            "Gives the exit code, stdout and stderr; of very long output only both ends.",
            BashArguments,
        ),
        ToolKind("read", "Read a text file of the work machine, at most 64 KiB of it.", ReadArguments),
        ToolKind(
            "write",
            "Write a text file of the work machine, in place of what was there. Makes missing folders.",
            WriteArguments,
        ),
        ToolKind("ls", "List a folder of the work machine.", ListArguments),
        ToolKind(
            "say",
            "Send the user a message. They see nothing else you write, so report with this; the last message "
            "is your result.",
            SayArguments,
        ),
        ToolKind(
            "ask",
            "Ask the user a question that you cannot go on without, then stop: the answer comes with their "
            "next message.",
            AskArguments,
        ),
    )
}


@dataclass(frozen=True)
class ToolAnswer:
    """What the model gets."""

    text: str
    is_error: bool = False


@dataclass(frozen=True)
class Outcome:
    """How a call ended: what the log says, and what the model gets."""

    event: NewEvent
    answer: ToolAnswer


async def run_bash(call: ToolCall, wanted: BashArguments, hands: Hands, most_seconds: float) -> Outcome:
    """Raises what the hands raise."""
    seconds = min(wanted.timeout or most_seconds, most_seconds)
    result = await hands.run(wanted.command, timeout_seconds=seconds)
    execution = Execution(result.exit_code, result.output, result.duration_ms, result.timed_out)
    head = f"exit code {result.exit_code}"
    if result.timed_out:
        head += f"; it took more than {seconds:g} seconds and was killed"
    parts = [head, *_stream("stdout", result.stdout), *_stream("stderr", result.stderr)]
    return Outcome(executed(call, execution), ToolAnswer("\n".join(parts), result.timed_out))


def _stream(name: str, text: str) -> Sequence[str]:
    return [f"{name}:", middle_out(text, MODEL_BYTES)] if text else []


async def read_file(wanted: ReadArguments, hands: Hands) -> ToolAnswer:
    content = await hands.read(wanted.path, limit=MODEL_BYTES + 1)
    if b"\0" in content[:8192]:
        return ToolAnswer("this is not a text file; look at it with bash", is_error=True)
    if len(content) <= MODEL_BYTES:
        return ToolAnswer(content.decode(errors="replace"))
    note = f"\n[… only the first {MODEL_BYTES} bytes; read on with bash …]"
    return ToolAnswer(content[:MODEL_BYTES].decode(errors="ignore") + note)


async def write_file(wanted: WriteArguments, hands: Hands) -> ToolAnswer:
    content = wanted.content.encode()
    await hands.write(wanted.path, content)
    return ToolAnswer(f"wrote {len(content)} bytes")


async def list_folder(wanted: ListArguments, hands: Hands) -> ToolAnswer:
    entries = await hands.list(wanted.path)
    lines = [_entry(entry) for entry in entries[:_MOST_ENTRIES]]
    if len(entries) > _MOST_ENTRIES:
        lines.append(f"[… and {len(entries) - _MOST_ENTRIES} more …]")
    return ToolAnswer(middle_out("\n".join(lines) or "(empty)", MODEL_BYTES))


def _entry(entry: Mapping[str, Any]) -> str:
    name = str(entry.get("name", ""))
    return f"{name}/" if entry.get("type") == "directory" else f"{name} ({entry.get('size', 0)} bytes)"


async def use_file(wanted: BaseModel, hands: Hands) -> ToolAnswer:
    """Do what the arguments of a tool for files are for. Raises what the hands raise."""
    if isinstance(wanted, ReadArguments):
        return await read_file(wanted, hands)
    if isinstance(wanted, WriteArguments):
        return await write_file(wanted, hands)
    assert isinstance(wanted, ListArguments)
    return await list_folder(wanted, hands)


def file_outcome(call: ToolCall, wanted: BaseModel, answer: ToolAnswer, duration_ms: int) -> Outcome:
    """The log has what was done, not the contents of files."""
    path = getattr(wanted, "path", "")
    done = f"{path}: {answer.text}" if answer.is_error or call.tool == "write" else f"{path}"
    return Outcome(answered(call, done, duration_ms, is_error=answer.is_error), answer)
