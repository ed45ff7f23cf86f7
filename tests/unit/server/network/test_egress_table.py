"""The table of what machines may reach."""

from __future__ import annotations

from opencomputer.server.contracts.egress import EgressTable
from opencomputer.server.domain.egress import EgressRules
from opencomputer.server.network.egress_table import EgressTableInMemory
from opencomputer.wire.ids import OrgId, SandboxId

ADDRESS = "10.231.0.6"


def rules(*allowlist: str) -> EgressRules:
    return EgressRules(OrgId("org-1"), SandboxId("sb-00000001"), allowlist=allowlist)


def test_an_address_nobody_named_has_no_rules() -> None:
    table: EgressTable = EgressTableInMemory()
    assert table.rules(ADDRESS) is None


def test_the_latest_rules_of_an_address_count_until_it_is_dismissed() -> None:
    table = EgressTableInMemory()
    table.admit(ADDRESS, rules("a.example"))
    table.admit(ADDRESS, rules("b.example"))
    assert table.rules(ADDRESS) == rules("b.example")
    table.dismiss(ADDRESS)
    table.dismiss(ADDRESS)
    assert table.rules(ADDRESS) is None


def test_subscribers_are_told_of_changes_only_and_see_the_new_rules() -> None:
    table = EgressTableInMemory()
    seen: list[tuple[str, EgressRules | None]] = []
    table.subscribe(lambda address: seen.append((address, table.rules(address))))
    table.dismiss(ADDRESS)
    table.admit(ADDRESS, rules("a.example"))
    table.admit(ADDRESS, rules("a.example"))
    table.admit(ADDRESS, rules())
    table.dismiss(ADDRESS)
    assert seen == [(ADDRESS, rules("a.example")), (ADDRESS, rules()), (ADDRESS, None)]
