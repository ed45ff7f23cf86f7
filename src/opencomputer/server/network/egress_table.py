"""What each machine may reach, by its address, as services have said."""

from __future__ import annotations

from collections.abc import Callable

from opencomputer.server.domain.egress import EgressRules

RulesChanged = Callable[[str], None]
"""Called with the address of a machine whose rules are other ones now. Neither blocks nor raises."""


class EgressTableInMemory:
    """Implements EgressTable for everything that runs in the event loop's thread.

    Rules hold values of secrets, so they are kept here only, and are gone with the process; services admit
    every machine again when the node starts.
    """

    def __init__(self) -> None:
        self._rules: dict[str, EgressRules] = {}
        self._subscribers: list[RulesChanged] = []

    def admit(self, address: str, rules: EgressRules) -> None:
        if self._rules.get(address) != rules:
            self._rules[address] = rules
            self._tell(address)

    def dismiss(self, address: str) -> None:
        if self._rules.pop(address, None) is not None:
            self._tell(address)

    def rules(self, address: str) -> EgressRules | None:
        return self._rules.get(address)

    def subscribe(self, changed: RulesChanged) -> None:
        """Have `changed` called after each change, in the order of subscription.

        The new rules are in force by then: subscribers look up what is permitted now and cut the rest.
        """
        self._subscribers.append(changed)

    def _tell(self, address: str) -> None:
        for changed in self._subscribers:
            changed(address)
