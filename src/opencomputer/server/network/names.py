"""What the node says about names, and to whom it has said it: the parts that belong together."""

from __future__ import annotations

from opencomputer.server.contracts.clock import Clock
from opencomputer.server.contracts.egress import EgressLog
from opencomputer.server.network.egress_table import EgressTableInMemory
from opencomputer.server.network.restricted_names import RestrictedNames
from opencomputer.server.network.told_names import ToldNames


class Names:
    """`told` is for the proxy, which sees connections without a name."""

    def __init__(self, table: EgressTableInMemory, log: EgressLog, clock: Clock) -> None:
        self.table = table
        self.log = log
        self.told = ToldNames(table, clock)
        self.restricted = RestrictedNames(table, self.told, log, clock)
        table.subscribe(self.told.rules_changed)
