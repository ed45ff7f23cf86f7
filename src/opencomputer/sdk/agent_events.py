"""What a Claude session in a sandbox says, and what its words mean for whoever waits for it. No I/O here."""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterator, KeysView, Mapping
from dataclasses import dataclass, field
from typing import Any

from opencomputer.sdk.answers import Described, is_json_object
from opencomputer.wire.frames import UNKNOWN_EXIT_CODE

_TURN_CODES: Mapping[str, int] = {"turn_complete": 0, "error": 1, "interrupted": 130}
_WORK = frozenset({"assistant", "user", "stream_event", "tool_progress", "tool_use_summary"})


@dataclass(frozen=True)
class AgentEvent:
    """One event. `data` holds its fields without the type; unknown types are passed on as they are."""

    type: str
    data: Described = field(default_factory=dict[str, object])

    def __getitem__(self, key: str) -> Any:
        return self.type if key == "type" else self.data[key]

    def __contains__(self, key: object) -> bool:
        return key == "type" or key in self.data

    def get(self, key: str, default: Any = None) -> Any:
        """A field, or the default when the event does not have it."""
        return self.type if key == "type" else self.data.get(key, default)

    def keys(self) -> KeysView[str]:
        """The names of the event's fields, without the type."""
        return self.data.keys()


def event_from(line: bytes) -> AgentEvent | None:
    """The event that a line of the agent's output holds; None when it is something else."""
    try:
        value: object = json.loads(line)
    except ValueError:
        return None
    if not is_json_object(value):
        return None
    kind = value.pop("type", None)
    return AgentEvent(kind if isinstance(kind, str) else "unknown", value)


class LineSplitter:
    """Cuts a stream of pieces into its lines, without the blank ones."""

    def __init__(self) -> None:
        self._unfinished: list[bytes] = []

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Yield the lines that this piece ends."""
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            yield from self._line(end)
        if rest:
            self._unfinished.append(rest)

    def flush(self) -> Iterator[bytes]:
        """Yield what was left without an end of line."""
        yield from self._line(b"")

    def _line(self, end: bytes) -> Iterator[bytes]:
        line = b"".join([*self._unfinished, end]).strip()
        self._unfinished.clear()
        if line:
            yield line


class TextDecoder:
    """Decodes UTF-8 that arrives in pieces, replacing bad bytes and no others."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def feed(self, chunk: bytes) -> str:
        """The text that is complete with this piece."""
        return self._decoder.decode(chunk)


class TurnTracker:
    """Follows whether the agent works, from its events and exit frames.

    The server sends an exit frame at the end of each turn as well as at the end of the process. The first
    belongs to the event that ended the turn; one that no such event announced is the process's own.
    """

    def __init__(self, prompts: int) -> None:
        self._prompts = prompts
        self._replaying = True
        self._early_prompts = 0
        self._working = False
        self._turn_code = 0
        self._frame_due = False
        self._last_frame: int | None = None
        self._process_code: int | None = None

    @property
    def idle(self) -> bool:
        """Whether no turn runs and no prompt of ours is waiting for its turn."""
        return self._prompts == 0 and self._early_prompts == 0 and not self._working

    @property
    def turn_code(self) -> int:
        """How the last turn ended: 0, 1 after an error, 130 after an interrupt; 0 before the first."""
        return self._turn_code

    def prompted(self) -> None:
        """A prompt was sent. The ends of turns that are still being replayed are not about it."""
        if self._replaying:
            self._early_prompts += 1
        else:
            self._prompts += 1

    def replay_ended(self) -> None:
        """What is heard from now on is new."""
        self._replaying = False
        self._prompts += self._early_prompts
        self._early_prompts = 0

    def heard(self, event: AgentEvent) -> None:
        """An event arrived, replayed or new."""
        self._last_frame = None
        if event.type in _TURN_CODES:
            self._frame_due = True
            self._turn_code = _TURN_CODES[event.type]
            self._working = False
            self._prompts = max(0, self._prompts - 1)
        elif _belongs_to_turn(event):
            self._frame_due = False
            self._working = True

    def exit_frame(self, code: int) -> None:
        """An exit frame arrived, for a turn or for the process."""
        self._last_frame = code
        if not self._frame_due:
            self._process_code = code
        self._frame_due = False

    def exit_code(self, *, session_over: bool) -> int:
        """The process's exit code once the link has ended; -1 when the link was lost before the process was.

        A server that ended the session right after an exit frame meant the process, even where a turn had
        just ended: somebody else may have been told of that turn.
        """
        if self._process_code is not None:
            return self._process_code
        if session_over and self._last_frame is not None:
            return self._last_frame
        return UNKNOWN_EXIT_CODE


def _belongs_to_turn(event: AgentEvent) -> bool:
    # Only what surely does: nothing would end the work that a notice between turns had begun.
    return event.type in _WORK or (event.type == "system" and event.get("subtype") == "init")


def describe_foreign_line(line: bytes) -> str:
    """What to report of a line that is not an event."""
    return f"non-JSON stdout: {line.decode('utf-8', errors='replace')}"
