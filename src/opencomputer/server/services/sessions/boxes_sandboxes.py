"""The sandboxes of sessions: made once, woken when needed, and made anew when lost.

Which sandbox a session has is written down only when it can be used. Until then it is found again by the key
it was created with, which follows from the session and from the sandbox it comes after.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any
from weakref import WeakValueDictionary

import structlog

from opencomputer.server.contracts.clock import Clock
from opencomputer.server.contracts.machine import Machine
from opencomputer.server.contracts.sessions import SessionStore
from opencomputer.server.domain.errors import (
    ArtefactDamaged,
    ArtefactMissing,
    Gone,
    GuestFault,
    MachineLost,
    NotFound,
    OpenComputerError,
    OperationInProgress,
)
from opencomputer.server.domain.limits import DEFAULT_MEMORY_MB, MIN_DISK_MB, TIERS
from opencomputer.server.domain.sandbox import TERMINAL, Sandbox, SandboxShape, SandboxState
from opencomputer.server.domain.sessions.errors import SessionArchived
from opencomputer.server.domain.sessions.events import (
    SANDBOX_CREATED,
    SANDBOX_HIBERNATED,
    SANDBOX_LOST,
    SANDBOX_WOKEN,
    SYSTEM,
    Level,
    NewEvent,
)
from opencomputer.server.domain.sessions.session import Boxes, Session
from opencomputer.server.services.sandboxes.hibernation import Hibernation
from opencomputer.server.services.sandboxes.lifecycle import Lifecycle, NewSandbox, Source
from opencomputer.server.services.sandboxes.live import LiveSandbox
from opencomputer.server.services.sandboxes.reach import Reach
from opencomputer.wire.ids import SandboxId, SessionId

_log = structlog.get_logger(__name__)

SESSION = "oc.session"
ROLE = "oc.role"
"""Metadata by which everybody can tell what a sandbox is for."""

_KEY = "oc.session-box"
TEMPLATE = "base"
_SHAPE = SandboxShape(DEFAULT_MEMORY_MB, TIERS[DEFAULT_MEMORY_MB], MIN_DISK_MB)
# The engine puts them to sleep much sooner. This is for when nobody does.
_IDLE_SECONDS = 3600
_ATTEMPTS = 8
_END_SECONDS = 15.0


class Role(StrEnum):
    BRAIN = "brain"
    HANDS = "hands"


@dataclass(frozen=True)
class Place:
    """A sandbox of a session, running. `after_loss`: it is new, and there was another before."""

    live: LiveSandbox
    after_loss: bool = False


Settle = Callable[[Session, LiveSandbox], Awaitable[None]]
"""What has to be done to a new sandbox before it is its session's. It may be done twice."""


@dataclass(frozen=True)
class Supply:
    """Machines that are ready for new sandboxes of sessions. `give_back`: it was not used."""

    take: Callable[[Session], Machine | None]
    give_back: Callable[[Machine], None]


@dataclass(frozen=True)
class _Making:
    settle: Settle
    supply: Supply | None


def box_of(boxes: Boxes, role: Role) -> SandboxId | None:
    return boxes.brain if role is Role.BRAIN else boxes.hands


def creation_key(session_id: SessionId, role: Role, after: SandboxId | None) -> str:
    """The idempotency key of the sandbox that comes after another, or after none."""
    return f"{_KEY}/{session_id}/{role}/{after or 'first'}"


def is_session_box(sandbox: Sandbox) -> bool:
    """Whether it was made for a session, and is not just a copy of such a one."""
    return (sandbox.idempotency_key or "").startswith(f"{_KEY}/") and SESSION in sandbox.metadata


class SessionSandboxes:
    def __init__(
        self,
        lifecycle: Lifecycle,
        reach: Reach,
        hibernation: Hibernation,
        store: SessionStore,
        clock: Clock,
    ) -> None:
        self._lifecycle = lifecycle
        self._reach = reach
        self._hibernation = hibernation
        self._store = store
        self._clock = clock
        self._locks: WeakValueDictionary[tuple[SessionId, Role | None], asyncio.Lock] = WeakValueDictionary()

    async def session(self, session_id: SessionId) -> Session:
        """As it is now. Raises NotFound."""
        session = await self._store.find(session_id)
        if session is None:
            raise NotFound("there is no such session")
        return session

    async def ready(
        self, session_id: SessionId, role: Role, settle: Settle, supply: Supply | None = None
    ) -> Place:
        """The sandbox of a session, running: made, woken, or made anew when it was lost.

        One that is made gets the machine that `supply` has, where there is one.

        Raises SessionArchived, NotFound, and what making and waking sandboxes raise.
        """
        async with self._lock(session_id, role):
            session = await self.session(session_id)
            if session.archived:
                raise SessionArchived
            known = box_of(session.boxes, role)
            live = None if known is None else await self._existing(session, role, known)
            if live is not None:
                return Place(live)
            if known is not None:
                await self.note(session_id, SANDBOX_LOST, role, known, key=f"box:{known}:lost")
            live = await self._make(session, role, known, _Making(settle, supply))
            return Place(live, after_loss=known is not None)

    async def running(self, session: Session, role: Role) -> LiveSandbox | None:
        """The sandbox as far as it runs right now."""
        known = box_of((await self.session(session.id)).boxes, role)
        if known is None:
            return None
        try:
            return await self._lifecycle.running(session.org_id, known)
        except OpenComputerError:
            return None

    async def rest(self, session_id: SessionId, role: Role) -> None:
        """Put it to sleep. One that is not there, or sleeps, is no error. Raises as `hibernate` does."""
        async with self._lock(session_id, role):
            session = await self.session(session_id)
            known = box_of(session.boxes, role)
            if known is None:
                return
            try:
                sandbox = await self._lifecycle.get(session.org_id, known)
                if sandbox.state in TERMINAL or sandbox.state is SandboxState.HIBERNATED:
                    return
                await self._hibernation.hibernate(session.org_id, known)
            except (Gone, NotFound):
                return
            await self.note(session_id, SANDBOX_HIBERNATED, role, known)

    async def end(self, session_id: SessionId, role: Role) -> None:
        """Kill it. Which one it was stays written down: whoever needs one again gets another after it."""
        async with self._lock(session_id, role):
            session = await self.session(session_id)
            known = box_of(session.boxes, role)
            if known is not None:
                await self._kill(session, known)

    async def replace(self, session_id: SessionId, role: Role, sandbox: Sandbox) -> None:
        """Let a session go on with another sandbox. The one it had is killed."""
        async with self._lock(session_id, role):
            session = await self.session(session_id)
            await self._record(session_id, role, sandbox.id)
            known = box_of(session.boxes, role)
            if known is not None and known != sandbox.id:
                await self._kill(session, known)

    async def note(
        self,
        session_id: SessionId,
        kind: str,
        role: Role,
        sandbox_id: SandboxId,
        *,
        key: str | None = None,
        **more: Any,
    ) -> None:
        """Tell the session's log what has become of a sandbox of it. With a key, once."""
        body = {"sandbox": str(role), "sandbox_id": sandbox_id, **more}
        event = NewEvent(kind, Level.INTERNAL, body, actor=SYSTEM, key=key)
        await self._store.note(session_id, [event], self._clock.now())

    async def _kill(self, session: Session, sandbox_id: SandboxId) -> None:
        try:
            await self._lifecycle.kill(session.org_id, sandbox_id)
        except NotFound:
            return

    async def _existing(self, session: Session, role: Role, known: SandboxId) -> LiveSandbox | None:
        """The sandbox a session has, woken if it sleeps. None: it is lost."""
        try:
            return await self._awake(session, role, known)
        except (Gone, NotFound):
            return None
        except (ArtefactMissing, ArtefactDamaged) as error:
            _log.error("what a session's sandbox sleeps as is lost", sandbox=known, reason=error.message)
            await self._kill(session, known)
            return None

    async def _awake(self, session: Session, role: Role, known: SandboxId) -> LiveSandbox:
        for _ in range(_ATTEMPTS):
            asleep = (await self._lifecycle.get(session.org_id, known)).state is SandboxState.HIBERNATED
            live = await self._reach.live(session.org_id, known)
            if live.machine.lost:
                await self._ended(live)
                continue
            if asleep:
                await self.note(session.id, SANDBOX_WOKEN, role, known)
            live.activity.touch()
            return live
        raise OperationInProgress

    async def _ended(self, live: LiveSandbox) -> None:
        """Wait until it is known what becomes of a sandbox whose machine has ended."""
        try:
            async with asyncio.timeout(_END_SECONDS):
                await live.ended.wait()
        except TimeoutError:
            raise MachineLost from None

    async def _make(
        self, session: Session, role: Role, after: SandboxId | None, making: _Making
    ) -> LiveSandbox:
        """A new sandbox that is the session's when this returns."""
        failures = 0
        while failures < _ATTEMPTS:
            made = await self._created(session, self._request(session, role, after), making.supply)
            if made.state in TERMINAL:
                after = made.id
                continue
            try:
                live = await self._reach.live(session.org_id, made.id)
                await making.settle(session, live)
            except (Gone, MachineLost):
                # It ended at once, or it is one that an earlier process made and never wrote down.
                await self._kill(session, made.id)
                after = made.id
                failures += 1
                continue
            await self._record(session.id, role, made.id)
            await self.note(session.id, SANDBOX_CREATED, role, made.id, key=f"box:{made.id}:created")
            return live
        raise MachineLost("the session's sandboxes end as soon as they are made")

    async def _created(self, session: Session, request: NewSandbox, supply: Supply | None) -> Sandbox:
        machine = None if supply is None else supply.take(session)
        if supply is None or machine is None:
            return (await self._lifecycle.create(session.org_id, request)).sandbox
        source = Source(self._lifecycle.origin(request.template, request.shape), machine=machine)
        used = False
        try:
            made = (await self._lifecycle.create(session.org_id, request, source)).sandbox
            used = made.machine_id == machine.id
        except (MachineLost, GuestFault) as error:
            _log.warning("a machine that was ready was lost; taking another", reason=error.message)
            # The sandbox that failed with it has the key: the next one comes after that.
            return (await self._lifecycle.create(session.org_id, request)).sandbox
        finally:
            if not used:
                supply.give_back(machine)
        return made

    def _request(self, session: Session, role: Role, after: SandboxId | None) -> NewSandbox:
        return NewSandbox(
            template=TEMPLATE,
            shape=_SHAPE,
            timeout_seconds=_IDLE_SECONDS,
            environment={},
            metadata=box_metadata(session.id, role),
            alias=None,
            network_enabled=role is Role.HANDS,
            idempotency_key=creation_key(session.id, role, after),
            request_hash=str(role),
        )

    async def _record(self, session_id: SessionId, role: Role, sandbox_id: SandboxId) -> None:
        async with self._lock(session_id, None):
            session = await self.session(session_id)
            if session.archived:
                await self._kill(session, sandbox_id)
                raise SessionArchived
            boxes = (
                replace(session.boxes, brain=sandbox_id)
                if role is Role.BRAIN
                else replace(session.boxes, hands=sandbox_id)
            )
            await self._store.set_boxes(session_id, boxes)

    def _lock(self, session_id: SessionId, role: Role | None) -> asyncio.Lock:
        key = (session_id, role)
        lock = self._locks.get(key)
        if lock is None:
            lock = self._locks[key] = asyncio.Lock()
        return lock


def box_metadata(session_id: SessionId, role: Role) -> dict[str, str]:
    return {SESSION: session_id, ROLE: str(role)}
