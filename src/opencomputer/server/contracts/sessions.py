"""What durable sessions need from storage: the log is the truth, and every change is one transaction.

Whatever appends an event gives it the next `seq` under the session's lock, updates the session's fold
(status, head, cursor, usage, last turn) and writes the deliveries it causes, all in the same transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from opencomputer.server.domain.errors import OpenComputerError
from opencomputer.server.domain.sessions.destinations import Delivery, DeliveryFilter, Destination
from opencomputer.server.domain.sessions.events import Content, Event, EventFilter, NewEvent
from opencomputer.server.domain.sessions.session import (
    Boxes,
    Claim,
    Completion,
    Session,
    SessionFilter,
    Turn,
)
from opencomputer.wire.ids import DeliveryId, DestinationId, EventId, OrgId, SandboxId, SessionId, TurnId


class Fenced(OpenComputerError):
    """Somebody else writes this turn now, or it has ended."""

    code = "turn_fenced"


@dataclass(frozen=True)
class Admission:
    """Everything that comes into being with a session: it is there as a whole or not at all.

    `session` has head 0 and no turn; `input` becomes seq 1 of its log and `first_turn` takes it.
    `request_hash` stands for the whole request; `idempotency_key` is the header's, `session.key` the body's.
    """

    session: Session
    input: NewEvent
    first_turn: TurnId
    request_hash: str
    idempotency_key: str | None = None
    destinations: Sequence[Destination] = ()


@dataclass(frozen=True)
class Admitted:
    session: Session
    replayed: bool


@dataclass(frozen=True)
class Accepted:
    """An input that is in the log."""

    event: Event
    session: Session
    replayed: bool


class SessionStore(Protocol):
    async def admit(self, admission: Admission) -> Admitted:
        """Insert a session with its first input, or give the one that this request made before.

        Raises IdempotencyMismatch when its key, or its idempotency key, was used with another request.
        """
        ...

    async def replay(
        self, org_id: OrgId, request_hash: str, *, key: str | None, idempotency_key: str | None
    ) -> Session | None:
        """The session that this request made before, as it is now; None when there is none.

        `key` is the body's, `idempotency_key` the header's. Raises IdempotencyMismatch as `admit` does.
        """
        ...

    async def get(self, org_id: OrgId, session_id: SessionId) -> Session | None: ...

    async def find(self, session_id: SessionId) -> Session | None:
        """Of whatever organisation: for callers who prove in another way what they may do."""
        ...

    async def list(
        self, org_id: OrgId, wanted: SessionFilter, *, limit: int, before: Session | None = None
    ) -> Sequence[Session]:
        """Newest first; with `before`, those that come after it in that order."""
        ...

    async def accept(
        self, session_id: SessionId, event: NewEvent, at: datetime, *, request_hash: str | None = None
    ) -> Accepted:
        """Append an input and give it to a turn: one that is queued already, or a new one.

        `event.key` is the input's dedupe key. Raises SessionArchived, NotFound, and IdempotencyMismatch when
        the key came with another `request_hash` before. The session's `auto_runs` is 0 then.
        """
        ...

    async def note(self, session_id: SessionId, events: Sequence[NewEvent], at: datetime) -> Sequence[Event]:
        """Append what the server itself has to say, outside of any turn's claim. Raises NotFound."""
        ...

    async def turns(self, session_id: SessionId, *, limit: int, before: Turn | None = None) -> Sequence[Turn]:
        """Newest first."""
        ...

    async def turn(self, session_id: SessionId, turn_id: TurnId) -> Turn | None: ...

    async def set_boxes(self, session_id: SessionId, boxes: Boxes) -> None: ...

    async def forget_kept(
        self, session_id: SessionId, *, states: Set[TurnId], checkpoints: Set[TurnId]
    ) -> None:
        """Of these turns the runtime's state, or the checkpoint, is not kept any more."""
        ...

    async def request_cancel(self, session_id: SessionId, at: datetime) -> Session:
        """Ask the turn that runs to stop, and end one that is only queued at once. Raises NotFound."""
        ...

    async def archive(self, session_id: SessionId, at: datetime) -> Session:
        """Close a session for writing: its turn ends canceled, its epoch moves on. Idempotent.

        Raises NotFound.
        """
        ...

    async def rewind(
        self, session_id: SessionId, turn_id: TurnId, at: datetime, *, hands: SandboxId | None = None
    ) -> Session:
        """Let the next turn go on from the end of `turn_id`, with these hands; appends what says so.

        Raises NotFound, SessionArchived, and Conflict while a turn is queued or runs.
        """
        ...


class EventLog(Protocol):
    """Reading. The caller has checked whose session it is."""

    async def read(
        self, session_id: SessionId, wanted: EventFilter, *, after: int, limit: int
    ) -> Sequence[Event]:
        """Events with `seq > after`, in order, at most `limit` of them."""
        ...

    async def head(self, session_id: SessionId) -> int:
        """The largest committed seq; 0 when there is no such session."""
        ...

    async def event(self, session_id: SessionId, event_id: EventId) -> Event | None: ...

    async def content(self, session_id: SessionId, event_id: EventId) -> Content | None: ...


@dataclass(frozen=True)
class TurnFlags:
    """What the owner of a claim has to know while its turn runs."""

    deadline_at: datetime | None
    cancel_requested_at: datetime | None


class TurnStore(Protocol):
    """The engine's side of sessions. What takes a Claim raises Fenced when that is no longer good."""

    async def claimable(self, now: datetime, *, limit: int) -> Sequence[SessionId]:
        """Sessions with a turn to run that nobody holds: queued ones, and those whose lease is over."""
        ...

    async def claim(self, session_id: SessionId, owner: str, now: datetime, until: datetime) -> Claim | None:
        """Take the oldest turn that has not ended. None when somebody holds it, or there is none.

        The epoch is new. A turn that was claimed before keeps its id and its input; its attempt counts up.
        """
        ...

    async def renew(self, claim: Claim, until: datetime) -> TurnFlags:
        """Hold on to a claim."""
        ...

    async def begin(self, claim: Claim, now: datetime, deadline_at: datetime) -> Turn:
        """The turn runs: append `turn.started` unless an earlier attempt has, and settle what it takes.

        The deadline of an earlier attempt stays.
        """
        ...

    async def retry(self, claim: Claim) -> Claim:
        """The same claim for another attempt of the same owner; its epoch is new."""
        ...

    async def append(self, claim: Claim, events: Sequence[NewEvent], at: datetime) -> Sequence[Event]:
        """Append events of the turn. A key that is in the log already gives the event it came with."""
        ...

    async def keys(self, claim: Claim, prefix: str) -> Sequence[str]:
        """Which keys with this prefix the log has."""
        ...

    async def count_run(self, claim: Claim) -> int:
        """Count one more run of the brain without a person; how many there are now."""
        ...

    async def complete(
        self, claim: Claim, completion: Completion, events: Sequence[NewEvent] = ()
    ) -> Session:
        """Append the last events and `turn.completed`, end the turn, settle the session, let go."""
        ...

    async def release(self, claim: Claim) -> None:
        """Give a turn back as it is, for whoever comes next. Never raises Fenced."""
        ...

    async def disown(self, owner_prefix: str) -> None:
        """Let go of every turn of owners whose name begins like this: they are known to be dead."""
        ...

    async def overdue(self, now: datetime, *, limit: int) -> Sequence[SessionId]:
        """Sessions whose running turn is past its deadline, or to be canceled, and held by nobody."""
        ...

    async def resting(self, before: datetime, *, limit: int) -> Sequence[Session]:
        """Sessions with boxes that may still be awake, and nothing to do since `before`."""
        ...

    async def rested(self, session_id: SessionId, seen: Session) -> None:
        """Its boxes sleep; unless something happened since it was `seen`."""
        ...


class DestinationStore(Protocol):
    async def add(self, destination: Destination, *, most: int) -> Destination:
        """With `created_after_seq` at the head. Raises LimitReached beyond `most`, SessionArchived."""
        ...

    async def list(self, session_id: SessionId) -> Sequence[Destination]:
        """Oldest first."""
        ...

    async def get(self, session_id: SessionId, destination_id: DestinationId) -> Destination | None: ...

    async def change(
        self,
        session_id: SessionId,
        destination_id: DestinationId,
        decide: Callable[[Destination], Destination],
    ) -> Destination | None:
        """Decide from what is there, and write it before anybody else changes it; None when it is gone."""
        ...

    async def delete(self, session_id: SessionId, destination_id: DestinationId) -> bool: ...


class DeliveryStore(Protocol):
    async def list(
        self, session_id: SessionId, wanted: DeliveryFilter, *, limit: int, after: Delivery | None = None
    ) -> Sequence[Delivery]:
        """Newest first."""
        ...

    async def get(self, session_id: SessionId, delivery_id: DeliveryId) -> Delivery | None: ...

    async def claim(self, now: datetime, until: datetime, *, limit: int, each: int) -> Sequence[Delivery]:
        """Deliveries of enabled destinations, those that are due longest first; they are held `until` then.

        First attempts of one destination are given out in the order of their seq, one at a time. No
        destination has more than `each` held at once, so that a slow one does not keep others waiting.
        """
        ...

    async def settle(self, held: Delivery, after: Delivery) -> None:
        """Write down how an attempt ended, unless that which was `held` is not held any more, or anew."""
        ...

    async def redeliver(self, delivery_id: DeliveryId, at: datetime) -> Delivery: ...

    async def next_due(self) -> datetime | None:
        """When the next attempt is due; None when nothing waits."""
        ...


class SessionSignals(Protocol):
    """Hints within one process that something may have happened; truth is always read from the tables."""

    def appended(self, session_id: SessionId, events: Sequence[Event] = ()) -> None:
        """Its log has grown, by these if they are known: whoever waits looks."""
        ...

    def queued(self, session_id: SessionId) -> None:
        """It has a turn to run."""
        ...

    def canceled(self, session_id: SessionId) -> None:
        """Its running turn is to stop, or is fenced."""
        ...

    def delivery(self) -> None:
        """Something is to be delivered."""
        ...


@dataclass(frozen=True)
class SessionTables:
    """Everything about durable sessions that is kept, agents and credentials apart."""

    sessions: SessionStore
    log: EventLog
    turns: TurnStore
    destinations: DestinationStore
    deliveries: DeliveryStore
