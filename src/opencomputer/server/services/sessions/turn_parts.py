"""What running turns takes, and what of the log turns are about."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, cast

from opencomputer.server.contracts.clock import Clock
from opencomputer.server.contracts.runtimes import BrainBoxes, Runtime
from opencomputer.server.contracts.sessions import EventLog, SessionStore, TurnStore
from opencomputer.server.contracts.tools import ToolDesk
from opencomputer.server.domain.sessions.events import (
    AGENT_MESSAGE,
    EXEC_COMPLETED,
    TOOL_CALL,
    TOOL_RESULT,
    Event,
    EventFilter,
    Json,
    Level,
)
from opencomputer.server.domain.sessions.fold import is_input
from opencomputer.server.domain.sessions.inputs import rendered
from opencomputer.server.domain.sessions.session import Turn

_PAGE = 500
_WORK = frozenset({AGENT_MESSAGE, EXEC_COMPLETED, TOOL_CALL, TOOL_RESULT})


@dataclass(frozen=True)
class TurnParts:
    """`gateway_url` is where brains find their models, without the provider's name."""

    sessions: SessionStore
    log: EventLog
    turns: TurnStore
    boxes: BrainBoxes
    desk: ToolDesk
    runtimes: Mapping[str, Runtime]
    clock: Clock
    gateway_url: str


async def inputs(log: EventLog, turn: Turn) -> Sequence[str]:
    """What a turn takes, as its model reads it, in order: always the same, whatever happened since."""
    found = list[str]()
    async with aclosing(_events(log, EventFilter(turn_id=turn.id), turn)) as events:
        async for event in events:
            if event.seq > turn.input_to_seq:
                break
            if is_input(event.type):
                found.append(rendered(event, await _whole(log, event)))
    return found


async def work_done(log: EventLog, turn: Turn) -> Sequence[Event]:
    """What the attempts of a turn so far did with tools, and told the user."""
    async with aclosing(_events(log, EventFilter(turn_id=turn.id), turn)) as events:
        return [event async for event in events if event.type in _WORK]


def has_asked(event: Event) -> bool:
    """It is a question to the user, which ends the turn."""
    return event.type == AGENT_MESSAGE and event.body.get("awaiting_input") is True


async def has_told_user(log: EventLog, turn: Turn) -> bool:
    """Whether any attempt of this turn said something to the user."""
    wanted = EventFilter(Level.USER, AGENT_MESSAGE, turn.id)
    return bool(await log.read(turn.session_id, wanted, after=turn.input_from_seq - 1, limit=1))


async def _events(log: EventLog, wanted: EventFilter, turn: Turn) -> AsyncGenerator[Event]:
    after = turn.input_from_seq - 1
    while page := await log.read(turn.session_id, wanted, after=after, limit=_PAGE):
        for event in page:
            yield event
        after = page[-1].seq


async def _whole(log: EventLog, event: Event) -> Json:
    if event.content_ref is None:
        return event.body
    content = await log.content(event.session_id, event.id)
    if content is None or content.media_type.partition(";")[0] != "application/json":
        return event.body
    return cast("Mapping[str, Any]", json.loads(content.data))
