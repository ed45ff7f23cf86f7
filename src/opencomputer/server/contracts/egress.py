"""Where services and the network meet about what sandboxes may reach.

Services know whose secrets and lists count; the network enforces what it is told, by a machine's address,
which the packet filter does not let it forge.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from opencomputer.server.domain.egress import EgressRules
from opencomputer.server.domain.egress_events import Decision, EgressEvent, EgressQuery, RecordedEvent

__all__ = [
    "Decision",
    "EgressEvent",
    "EgressEventStore",
    "EgressGate",
    "EgressLog",
    "EgressQuery",
    "EgressTable",
    "RecordedEvent",
    "ResolvedNames",
]


class EgressGate(Protocol):
    """The network's side of it: what services tell. Nothing is permitted to an address nobody named."""

    def admit(self, address: str, rules: EgressRules) -> None:
        """Apply `rules` to the machine with this address, from now on and instead of any before them.

        Connections that the new rules do not permit are cut. Does not block. The machine's packets are let
        through according to its mode (`Running.set_egress`), which the caller sets too: a stricter one before
        this, a looser one after it.
        """
        ...

    def dismiss(self, address: str) -> None:
        """Forget the rules of an address and cut its connections. Idempotent."""
        ...


class EgressTable(EgressGate, Protocol):
    """The network's own view: what proxy and resolver ask."""

    def rules(self, address: str) -> EgressRules | None: ...


class EgressLog(Protocol):
    """Takes decisions down."""

    def record(self, event: EgressEvent) -> None:
        """Never blocks and never fails; what cannot be kept up with is counted, and the count is kept."""
        ...


class EgressEventStore(Protocol):
    """The durable, queryable log of decisions."""

    async def add(self, events: Sequence[EgressEvent]) -> None: ...

    async def find(self, query: EgressQuery) -> Sequence[RecordedEvent]:
        """The oldest events after a place in the log, in the order in which they were written down."""
        ...

    async def prune(self, before: datetime, *, keep: int) -> int:
        """Remove events of a time before, and all but the newest `keep`. Returns how many."""
        ...


class ResolvedNames(Protocol):
    """What the resolver has told each machine lately."""

    def names(self, guest_address: str, address: str) -> frozenset[str]:
        """The permitted names which this machine was told to have this address, and may still believe to."""
        ...
