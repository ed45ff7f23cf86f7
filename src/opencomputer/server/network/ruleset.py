"""The packet filter of a node, as text for `nft`. Pure, and the same whatever machines there are.

Machines are told apart by the name of the host's end of their link, so starting one changes no rule:
`oc<tag>n…` may use the internet, `oc<tag>x…` may not.
"""

from __future__ import annotations

from dataclasses import dataclass

from opencomputer.server.network.addresses import BLOCKED_NETWORKS

METADATA_ADDRESS = "169.254.169.254"
RESOLVER_ADDRESS = "169.254.169.253"

_REFUSE = "reject with icmpx admin-prohibited"
"""Said and not only done, so that a program inside fails at once instead of waiting."""


@dataclass(frozen=True)
class RulesetSpec:
    """`node_address` is where the node's own listeners for machines are.

    `flows` is how many conversations with the outside one machine may have at a time: the host's table of
    them is shared, and one machine could fill it. `only_machines`: nobody else may use the host as a router.
    """

    node_tag: str
    node_address: str
    metadata_port: int
    resolver_port: int
    rate_kilobytes_per_second: int = 62_500
    burst_kilobytes: int = 10_000
    flows: int = 16_384
    only_machines: bool = False


def table_name(node_tag: str) -> str:
    return f"opencomputer_{node_tag}"


def interface_prefix(node_tag: str, *, egress: bool) -> str:
    return f"oc{node_tag}{'n' if egress else 'x'}"


def ruleset(spec: RulesetSpec) -> str:
    """A transaction that replaces the node's table, whatever was in it."""
    name = table_name(spec.node_tag)
    chains = (_sets(), _guard(spec), _redirect(spec), _local(spec), _forward(spec), _translate(spec))
    body = "\n".join(chains)
    return f"table inet {name}\ndelete table inet {name}\ntable inet {name} {{\n{body}\n}}\n"


def removal(node_tag: str) -> str:
    """A transaction that removes the node's table, if it is there."""
    name = table_name(node_tag)
    return f"table inet {name}\ndelete table inet {name}\n"


def _sets() -> str:
    return f"""
    set blocked {{
        type ipv4_addr
        flags interval
        elements = {{ {", ".join(BLOCKED_NETWORKS)} }}
    }}
    set flows {{
        type ifname
        size 65535
        flags dynamic
    }}
    set outbound {{
        type ifname
        size 65535
        flags dynamic,timeout
        timeout 1m
    }}
    set inbound {{
        type ifname
        size 65535
        flags dynamic,timeout
        timeout 1m
    }}"""


def _guard(spec: RulesetSpec) -> str:
    """Before anything else looks at a packet: only IPv4, only from the machine's own address."""
    return f"""
    chain check_source {{
        type filter hook prerouting priority raw; policy accept;
        iifname != "oc{spec.node_tag}*" accept
        meta nfproto ipv6 drop
        fib saddr . iif oif missing drop
    }}"""


def _redirect(spec: RulesetSpec) -> str:
    """The two platform addresses lead to the node's listeners."""
    closed = interface_prefix(spec.node_tag, egress=False)
    to_metadata = f"dnat ip to {spec.node_address}:{spec.metadata_port}"
    to_resolver = f"dnat ip to {spec.node_address}:{spec.resolver_port}"
    return f"""
    chain to_platform {{
        type nat hook prerouting priority dstnat; policy accept;
        iifname != "oc{spec.node_tag}*" accept
        ip daddr {METADATA_ADDRESS} tcp dport 80 {to_metadata}
        iifname "{closed}*" accept
        ip daddr {RESOLVER_ADDRESS} meta l4proto {{ tcp, udp }} th dport 53 {to_resolver}
    }}"""


def _local(spec: RulesetSpec) -> str:
    """To the host itself: answers to what the host began, and what was redirected above. Nothing else."""
    return f"""
    chain to_host {{
        type filter hook input priority filter; policy accept;
        iifname != "oc{spec.node_tag}*" accept
        ct state established,related accept
        ct status dnat ip daddr {spec.node_address} accept
        drop
    }}"""


def _forward(spec: RulesetSpec) -> str:
    """Through the host. The rate is the machine's with the world; its link to the host is not slowed.

    The kernel counts a second's worth of the rate on top of the burst it is given.
    """
    closed = interface_prefix(spec.node_tag, egress=False)
    limit = f"limit rate over {spec.rate_kilobytes_per_second} kbytes/second"
    limit += f" burst {spec.burst_kilobytes} kbytes"
    return f"""
    chain pass_on {{
        type filter hook forward priority filter; policy accept;
        iifname "oc{spec.node_tag}*" jump leaving
        oifname "oc{spec.node_tag}*" jump arriving
        {'iifname != "oc*" oifname != "oc*" drop' if spec.only_machines else ""}
    }}
    chain leaving {{
        iifname "{closed}*" {_REFUSE}
        oifname "oc*" {_REFUSE}
        ip daddr @blocked {_REFUSE}
        ct state new add @flows {{ iifname ct count over {spec.flows} }} {_REFUSE}
        update @outbound {{ iifname {limit} }} drop
        accept
    }}
    chain arriving {{
        ct state != {{ established, related }} drop
        update @inbound {{ oifname {limit} }} drop
    }}"""


def _translate(spec: RulesetSpec) -> str:
    return f"""
    chain to_outside {{
        type nat hook postrouting priority srcnat; policy accept;
        iifname "oc{spec.node_tag}*" oifname != "oc*" masquerade
    }}"""
