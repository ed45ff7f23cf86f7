"""The packet filter of a node, as text for `nft`. Pure, and the same whatever machines there are.

Machines are told apart by the host's end of their link, so starting one or changing what it may reach changes
no rule. The name `oc<tag>n…` says that a link is ours, its device group what is let out (`EgressMode`); that
is one number, so it changes from one packet to the next, and it stays whatever becomes of the node and of
these rules. A link in a group of which nothing is said here is closed.
"""

from __future__ import annotations

from dataclasses import dataclass

from opencomputer.server.domain.egress import (
    METADATA_ADDRESS,
    PROXY_ADDRESS,
    PROXY_PORT,
    RESOLVER_ADDRESS,
    EgressMode,
)
from opencomputer.server.network.addresses import BLOCKED_NETWORKS
from opencomputer.server.network.packet_log import ALLOWED, DENIED, HEAD_BYTES

DEVICE_GROUPS = {
    EgressMode.CLOSED: 0x6F630000,
    EgressMode.OPEN: 0x6F630001,
    EgressMode.WATCHED: 0x6F630002,
    EgressMode.RESTRICTED: 0x6F630003,
}
_OPEN, _WATCHED, _RESTRICTED = (
    DEVICE_GROUPS[mode] for mode in (EgressMode.OPEN, EgressMode.WATCHED, EgressMode.RESTRICTED)
)
_LET_OUT = f"{{ {_OPEN}, {_WATCHED}, {_RESTRICTED} }}"
_PROXIED = f"{{ {_WATCHED}, {_RESTRICTED} }}"


@dataclass(frozen=True)
class RulesetSpec:
    """`node_address` has the node's own listeners for machines; `machine_network` is where machines are.

    `flows` is how many conversations with the outside one machine may have at a time: the host's table of
    them is shared, and one machine could fill it. `log_group` is told of conversations that begin or are
    refused here, but of no more than a hundred a second and machine. `only_machines`: nobody else may use
    the host as a router.
    """

    node_tag: str
    node_address: str
    metadata_port: int
    resolver_port: int
    proxy_port: int
    transparent_port: int
    log_group: int = 0
    machine_network: str = "10.231.0.0/16"
    rate_kilobytes_per_second: int = 62_500
    burst_kilobytes: int = 10_000
    flows: int = 16_384
    only_machines: bool = False

    @property
    def rate_exceeded(self) -> str:
        """The kernel counts a second's worth of the rate on top of the burst it is given."""
        rate = f"{self.rate_kilobytes_per_second} kbytes/second"
        return f"limit rate over {rate} burst {self.burst_kilobytes} kbytes"


def table_name(node_tag: str) -> str:
    return f"opencomputer_{node_tag}"


def interface_prefix(node_tag: str) -> str:
    return f"oc{node_tag}n"


def ruleset(spec: RulesetSpec) -> str:
    """A transaction that puts these rules in the place of the node's rules, if there are any.

    The chains stay: two generations of a chain at one hook could each be looked at in the moment in which it
    says nothing, and a packet would pass between them.
    """
    name = table_name(spec.node_tag)
    return f"table inet {name}\nflush table inet {name}\n{_table(spec)}"


def replacement(spec: RulesetSpec) -> str:
    """A transaction that replaces the node's table, also one whose chains were of another kind."""
    return f"{removal(spec.node_tag)}{_table(spec)}"


def removal(node_tag: str) -> str:
    """A transaction that removes the node's table, if it is there."""
    name = table_name(node_tag)
    return f"table inet {name}\ndelete table inet {name}\n"


def _table(spec: RulesetSpec) -> str:
    chains = (
        _sets(spec),
        _note(spec),
        _refuse(),
        _guard(spec),
        _redirect(spec),
        _local(spec),
        _answer(spec),
        _forward(spec),
        _translate(spec),
    )
    return f"table inet {table_name(spec.node_tag)} {{\n{''.join(chains)}\n}}\n"


def _sets(spec: RulesetSpec) -> str:
    return f"""
    set blocked {{
        type ipv4_addr
        flags interval
        auto-merge
        elements = {{ {", ".join((*BLOCKED_NETWORKS, spec.machine_network))} }}
    }}
    set flows {{
        type ifname
        size 65535
        flags dynamic
    }}
    set noted {{
        type ifname
        size 65535
        flags dynamic,timeout
        timeout 1m
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


def _note(spec: RulesetSpec) -> str:
    """For the log of what sandboxes reach. What passes the proxy is told by the proxy, which knows more."""
    few = "ct state new update @noted { iifname limit rate 100/second burst 200 packets }"
    to_group = f"group {spec.log_group} snaplen {HEAD_BYTES}"
    return f"""
    chain note_allowed {{
        {few} log prefix "{ALLOWED}" {to_group}
    }}
    chain note_denied {{
        {few} log prefix "{DENIED}" {to_group}
    }}"""


def _refuse() -> str:
    """Said and not only done, so that a program inside fails at once instead of waiting.

    Programs take the message about a connection that stands already for a passing trouble; a reset they do
    not.
    """
    return """
    chain refuse {
        jump note_denied
        meta l4proto tcp ct state != new reject with tcp reset
        reject with icmpx admin-prohibited
    }"""


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
    """The platform's addresses lead to the node's listeners; so does what the proxy is to see.

    What must not be reached keeps its destination, so that the filter refuses it as in every mode.
    """
    to_node = f"dnat ip to {spec.node_address}"
    return f"""
    chain to_platform {{
        type nat hook prerouting priority dstnat; policy accept;
        iifname != "oc{spec.node_tag}*" accept
        ip daddr {METADATA_ADDRESS} tcp dport 80 {to_node}:{spec.metadata_port}
        iifgroup != {_LET_OUT} accept
        ip daddr {RESOLVER_ADDRESS} meta l4proto {{ tcp, udp }} th dport 53 {to_node}:{spec.resolver_port}
        ip daddr {PROXY_ADDRESS} tcp dport {PROXY_PORT} {to_node}:{spec.proxy_port}
        iifgroup != {_PROXIED} accept
        ip daddr @blocked accept
        fib daddr type local accept
        meta l4proto tcp {to_node}:{spec.transparent_port}
    }}"""


def _local(spec: RulesetSpec) -> str:
    """To the host itself: answers to what the host began, and what was redirected above. Nothing else.

    The redirection is asked for again with each packet: a closed machine's old conversations end.
    """
    return f"""
    chain to_host {{
        type filter hook input priority filter; policy accept;
        iifname != "oc{spec.node_tag}*" accept
        ct direction reply ct state established,related accept
        ct state related accept
        ip daddr != {spec.node_address} jump note_denied
        ip daddr != {spec.node_address} drop
        ct status & dnat == 0 drop
        ct original ip daddr {METADATA_ADDRESS} accept
        iifgroup != {_LET_OUT} goto refuse
        ct original ip daddr {RESOLVER_ADDRESS} accept
        ct state new add @flows {{ iifname ct count over {spec.flows} }} goto refuse
        update @outbound {{ iifname {spec.rate_exceeded} }} drop
        accept
    }}"""


def _answer(spec: RulesetSpec) -> str:
    """From the proxy to a machine: this is traffic with the world, too."""
    ports = f"{{ {spec.proxy_port}, {spec.transparent_port} }}"
    return f"""
    chain from_host {{
        type filter hook output priority filter; policy accept;
        oifname != "oc{spec.node_tag}*" accept
        ip saddr {spec.node_address} tcp sport {ports} update @inbound {{ oifname {spec.rate_exceeded} }} drop
    }}"""


def _forward(spec: RulesetSpec) -> str:
    """Through the host, looked at packet by packet: what stands already is no reason to let more through.

    The rate is the machine's with the world; its link to the host is not slowed.
    """
    return f"""
    chain pass_on {{
        type filter hook forward priority filter; policy accept;
        iifname "oc{spec.node_tag}*" jump leaving
        oifname "oc{spec.node_tag}*" jump arriving
        {'iifname != "oc*" oifname != "oc*" drop' if spec.only_machines else ""}
    }}
    chain leaving {{
        iifgroup != {{ {_OPEN}, {_WATCHED} }} goto refuse
        oifname "oc*" goto refuse
        ip daddr @blocked goto refuse
        iifgroup {_WATCHED} meta l4proto tcp goto refuse
        iifgroup {_WATCHED} udp dport 443 goto refuse
        ct state new add @flows {{ iifname ct count over {spec.flows} }} goto refuse
        update @outbound {{ iifname {spec.rate_exceeded} }} drop
        jump note_allowed
        accept
    }}
    chain arriving {{
        ct state != {{ established, related }} drop
        oifgroup != {{ {_OPEN}, {_WATCHED} }} drop
        oifgroup {_WATCHED} meta l4proto tcp drop
        oifgroup {_WATCHED} udp sport 443 drop
        update @inbound {{ oifname {spec.rate_exceeded} }} drop
    }}"""


def _translate(spec: RulesetSpec) -> str:
    return f"""
    chain to_outside {{
        type nat hook postrouting priority srcnat; policy accept;
        iifname "oc{spec.node_tag}*" oifname != "oc*" masquerade
    }}"""
