"""The text of the packet filter. What it does is tried with packets in tests/machines/test_network.py."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import ip_address, ip_network

import pytest

from opencomputer.server.domain.egress import EgressMode
from opencomputer.server.network.addresses import BLOCKED_NETWORKS
from opencomputer.server.network.ruleset import (
    DEVICE_GROUPS,
    RulesetSpec,
    interface_prefix,
    removal,
    replacement,
    ruleset,
)

SPEC = RulesetSpec(
    "abc123", "10.231.0.1", metadata_port=9254, resolver_port=9253, proxy_port=9252, transparent_port=9251
)


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


def test_the_rules_are_replaced_in_one_transaction_and_their_chains_stay() -> None:
    """There is no moment without a filter, and no leftover rule of an older one."""
    lines = ruleset(SPEC).splitlines()
    assert lines[:3] == [
        "table inet opencomputer_abc123",
        "flush table inet opencomputer_abc123",
        "table inet opencomputer_abc123 {",
    ]


def test_a_table_of_another_kind_is_replaced_in_one_transaction_too() -> None:
    begin = ["table inet opencomputer_abc123", "delete table inet opencomputer_abc123"]
    assert removal("abc123").splitlines() == begin
    assert replacement(SPEC).splitlines()[:2] == begin
    assert replacement(SPEC).splitlines()[2:] == ruleset(SPEC).splitlines()[2:]


def test_everything_is_about_the_interfaces_of_this_node() -> None:
    """The rules of the host and of other nodes stay as they are: each chain lets the rest through."""
    text = ruleset(SPEC)
    for chain in ("prerouting priority raw", "prerouting priority dstnat", "input priority filter"):
        after = text.split(chain)[1].splitlines()[1].strip()
        assert after == 'iifname != "ocabc123*" accept'
    assert "policy drop" not in text


def test_interface_names_fit_the_kernel() -> None:
    assert len(interface_prefix("abc123") + "3fff") <= 15


def test_a_link_in_no_group_or_in_one_nobody_knows_is_closed() -> None:
    """What is let out is named; nothing is let out because it is not named."""
    passing = f"{{ {DEVICE_GROUPS[EgressMode.OPEN]}, {DEVICE_GROUPS[EgressMode.WATCHED]} }}"
    leaving = ruleset(SPEC).split("chain leaving {")[1].splitlines()
    assert leaving[1].strip() == f"iifgroup != {passing} goto refuse"
    assert 0 not in DEVICE_GROUPS.values()
    assert len(set(DEVICE_GROUPS.values())) == len(EgressMode)


def test_blocked_addresses_are_never_led_to_the_proxy() -> None:
    """They keep their destination, so that the filter sees and refuses it."""
    rules = ruleset(SPEC).split("chain to_platform {")[1].split("}\n    chain")[0]
    assert rules.index("ip daddr @blocked accept") < rules.index(":9251")
    assert rules.index("fib daddr type local accept") < rules.index(":9251")


def test_the_network_of_the_machines_is_blocked_wherever_it_is() -> None:
    text = ruleset(replace(SPEC, machine_network="100.200.0.0/16"))
    assert "100.200.0.0/16" in text.split("set blocked {")[1].split("set flows")[0]


def test_a_host_that_was_no_router_does_not_become_one_for_others() -> None:
    """Passing packets on is a setting of the whole host; the filter takes back what is not ours."""
    rule = 'iifname != "oc*" oifname != "oc*" drop'
    assert rule not in ruleset(SPEC)
    assert rule in ruleset(replace(SPEC, only_machines=True))
