"""What the resolver has told each machine: which address is whose."""

from __future__ import annotations

from collections import OrderedDict

from opencomputer.server.contracts.clock import Clock
from opencomputer.server.contracts.egress import EgressTable

_SHORTEST_SECONDS = 300.0
_LONGEST_SECONDS = 3600.0
_PER_MACHINE = 1024
"""(address, name) pairs; the oldest are forgotten first, and the machine asks again."""


class ToldNames:
    """Implements ResolvedNames. Programs keep what they were told longer than they should; so does this."""

    def __init__(self, table: EgressTable, clock: Clock) -> None:
        self._table = table
        self._clock = clock
        self._told: dict[str, OrderedDict[tuple[str, str], float]] = {}

    def tell(self, guest_address: str, name: str, address: str, seconds: float) -> None:
        """Note that a machine is told now that `name` is at `address`, for so long."""
        mine = self._told.setdefault(guest_address, OrderedDict())
        until = self._clock.monotonic() + min(max(seconds, _SHORTEST_SECONDS), _LONGEST_SECONDS)
        mine[address, name] = until
        mine.move_to_end((address, name))
        if len(mine) > _PER_MACHINE:
            mine.popitem(last=False)

    def names(self, guest_address: str, address: str) -> frozenset[str]:
        rules = self._table.rules(guest_address)
        if rules is None:
            return frozenset()
        now = self._clock.monotonic()
        mine = self._told.get(guest_address) or OrderedDict[tuple[str, str], float]()
        return frozenset(
            name
            for (told, name), until in mine.items()
            if told == address and now < until and rules.permits(name)
        )

    def rules_changed(self, guest_address: str) -> None:
        """Forget a machine that is gone: the next one with its address was told nothing."""
        if self._table.rules(guest_address) is None:
            self._told.pop(guest_address, None)
