"""Durable sessions in tests: one to work with, hands that are no machine, and a log in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from opencomputer.server.contracts.runtimes import CommandResult
from opencomputer.server.contracts.sessions import Fenced
from opencomputer.server.domain.errors import FileMissing
from opencomputer.server.domain.sessions.events import Event, NewEvent
from opencomputer.server.domain.sessions.naming import new_event_id, new_session_id, new_turn_id
from opencomputer.server.domain.sessions.session import (
    MANAGED,
    PinnedAgent,
    Session,
    SessionStatus,
    Turn,
    TurnState,
)
from opencomputer.wire.ids import AgentId, EventId, OrgId, RevisionId, SessionId

AGENT = PinnedAgent(
    agent_id=AgentId("agt_" + "a" * 24),
    version=1,
    revision_id=RevisionId("rev_" + "b" * 24),
    revision=1,
    digest="sha256:0",
    prompt="Be brief.",
    prompt_hash="sha256:1",
    model="anthropic/claude-sonnet-5",
    runtime="scripted",
    credential=MANAGED,
)
BEGAN = datetime(2026, 1, 1, tzinfo=UTC)


def a_session(org_id: OrgId, session_id: SessionId | None = None) -> Session:
    return Session(
        id=session_id or new_session_id(),
        org_id=org_id,
        agent=AGENT,
        status=SessionStatus.RUNNING,
        head=1,
        input_cursor=1,
        epoch=1,
        created_at=BEGAN,
        updated_at=BEGAN,
    )


def a_turn(session: Session, attempt: int = 1) -> Turn:
    return Turn(new_turn_id(), session.id, 1, TurnState.RUNNING, attempt, 1, 1, BEGAN)


class MemoryLog:
    """Implements TurnWriter. It can be told to refuse, or to fail once."""

    def __init__(self, turn: Turn) -> None:
        self.turn = turn
        self.events: list[Event] = []
        self.fenced = False
        self.failing: Exception | None = None
        self._by_key: dict[str, Event] = {}

    async def write(self, *events: NewEvent) -> Sequence[str]:
        await asyncio.sleep(0)
        if self.fenced:
            raise Fenced
        if self.failing is not None:
            failing, self.failing = self.failing, None
            raise failing
        return [self._append(event) for event in events]

    async def known(self, prefix: str) -> frozenset[str]:
        return frozenset(key for key in self._by_key if key.startswith(prefix))

    def _append(self, new: NewEvent) -> EventId:
        key = new.key or f"rt:{len(self.events)}"
        if key not in self._by_key:
            event = Event(
                id=new_event_id(),
                session_id=self.turn.session_id,
                seq=len(self.events) + 1,
                at=BEGAN,
                type=new.type,
                level=new.level,
                body=new.body,
                actor=new.actor,
                turn_id=self.turn.id,
                refs=new.refs,
                source=new.source,
            )
            self.events.append(event)
            self._by_key[key] = event
        return self._by_key[key].id

    def of(self, type: str) -> list[Mapping[str, Any]]:
        return [event.body for event in self.events if event.type == type]

    @property
    def types(self) -> list[str]:
        return [event.type for event in self.events]


Command = Callable[[str, float], Awaitable[CommandResult]]


def printed(text: str, exit_code: int = 0, *, timed_out: bool = False) -> CommandResult:
    return CommandResult(exit_code, text, "", text.encode(), timed_out, 5)


class MemoryHands:
    """Implements Hands. `command` is what a command does; it prints itself when nothing else is said."""

    def __init__(self, command: Command | None = None, *, lost_before: bool = False) -> None:
        self.files: dict[str, bytes] = {}
        self.commands: list[tuple[str, float]] = []
        self._command = command
        self._lost_before = lost_before

    @property
    def lost_before(self) -> bool:
        return self._lost_before

    async def run(self, command: str, *, timeout_seconds: float) -> CommandResult:
        self.commands.append((command, timeout_seconds))
        return await self._command(command, timeout_seconds) if self._command else printed(command)

    async def read(self, path: str, *, limit: int) -> bytes:
        if path not in self.files:
            raise FileMissing
        return self.files[path][:limit]

    async def write(self, path: str, content: bytes) -> None:
        self.files[path] = content

    async def list(self, path: str) -> Sequence[Mapping[str, Any]]:
        found = [name for name in self.files if name.startswith(path)]
        return [
            {"name": name.rpartition("/")[2], "path": name, "type": "file", "size": len(self.files[name])}
            for name in found
        ]
