"""The text of the packet filter. What it does is tried with packets in tests/machines/test_network.py."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import ip_address, ip_network

import pytest

from opencomputer.server.network.addresses import BLOCKED_NETWORKS
from opencomputer.server.network.ruleset import RulesetSpec, interface_prefix, removal, ruleset

SPEC = RulesetSpec("abc123", "10.231.0.1", metadata_port=9254, resolver_port=9253)


@pytest.mark.parametrize(
    "address",
    ["10.0.0.1", "172.31.255.1", "192.168.1.1", "127.0.0.1", "169.254.169.254", "100.100.100.100", "0.0.0.0",
     "224.0.0.251", "255.255.255.255"],
)  # fmt: skip
def test_what_must_never_be_reached_is_blocked(address: str) -> None:
    assert any(ip_address(address) in ip_network(network) for network in BLOCKED_NETWORKS)


@pytest.mark.parametrize("address", ["192.0.2.1", "203.0.113.9", "198.51.100.1", "1.1.1.1", "172.32.0.1"])
def test_the_internet_and_the_ranges_for_documentation_are_not(address: str) -> None:
    assert not any(ip_address(address) in ip_network(network) for network in BLOCKED_NETWORKS)


def test_the_table_is_replaced_in_one_transaction() -> None:
    """There is no moment without a filter, and no leftover of an older one."""
    lines = ruleset(SPEC).splitlines()
    assert lines[:3] == [
        "table inet opencomputer_abc123",
        "delete table inet opencomputer_abc123",
        "table inet opencomputer_abc123 {",
    ]
    assert removal("abc123").splitlines() == lines[:2]


def test_everything_is_about_the_interfaces_of_this_node() -> None:
    """The rules of the host and of other nodes stay as they are: each chain lets the rest through."""
    text = ruleset(SPEC)
    for chain in ("prerouting priority raw", "prerouting priority dstnat", "input priority filter"):
        after = text.split(chain)[1].splitlines()[1].strip()
        assert after == 'iifname != "ocabc123*" accept'
    assert "policy drop" not in text


def test_interface_names_fit_the_kernel() -> None:
    assert len(interface_prefix("abc123", egress=True) + "3fff") <= 15
    assert interface_prefix("abc123", egress=True) != interface_prefix("abc123", egress=False)


def test_a_host_that_was_no_router_does_not_become_one_for_others() -> None:
    """Passing packets on is a setting of the whole host; the filter takes back what is not ours."""
    rule = 'iifname != "oc*" oifname != "oc*" drop'
    assert rule not in ruleset(SPEC)
    assert rule in ruleset(replace(SPEC, only_machines=True))
