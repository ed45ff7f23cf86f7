"""Which addresses a machine's connections may be made to, whoever named them."""

from __future__ import annotations

import socket
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

BLOCKED_NETWORKS = (
    "0.0.0.0/8",  # "this network"
    "10.0.0.0/8",  # private, and where the machines are
    "100.64.0.0/10",  # carriers' own
    "127.0.0.0/8",  # loopback
    "169.254.0.0/16",  # link-local: the metadata services of clouds
    "172.16.0.0/12",  # private
    "192.168.0.0/16",  # private
    "198.18.0.0/15",  # measuring devices; some overlays use it
    "224.0.0.0/4",  # multicast
    "240.0.0.0/4",  # reserved, and the broadcast address
)
"""What no machine may reach, in any mode. The ranges for documentation are left open on purpose: some
networks put their gateways there, and nothing of value hides behind them."""

_BLOCKED_4 = tuple(ip_network(network) for network in BLOCKED_NETWORKS)
_GLOBAL_6 = ip_network("2000::/3")
_BLOCKED_6 = tuple(
    ip_network(network)
    for network in (
        "2001::/23",  # special purposes, Teredo among them, which has an IPv4 address inside
        "2002::/16",  # 6to4, likewise
    )
)
_ANY_PORT = 9


def literal(host: str) -> str | None:
    """The address that a host is, in its normal form, if it is one and no name.

    `[…]` around IPv6 is taken off, and an IPv4 address inside an IPv6 one is what counts. Other ways to write
    an IPv4 address (`0x7f.1`, `2130706433`) are names, and as such resolve to nothing.
    """
    text = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    try:
        return str(_plain(ip_address(text)))
    except ValueError:
        return None


def is_public(address: str) -> bool:
    """Whether an address, in any form, is one of the internet's. What is no address is not."""
    try:
        parsed = _plain(ip_address(address))
    except ValueError:
        return False
    if isinstance(parsed, IPv4Address):
        return not any(parsed in network for network in _BLOCKED_4)
    return parsed in _GLOBAL_6 and not any(parsed in network for network in _BLOCKED_6)


def is_own(address: str) -> bool:
    """Whether the host itself has this address. Asks the kernel which way it would go, and sends nothing."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((address, _ANY_PORT))
            return probe.getsockname()[0] == address
    except OSError:
        return False


def may_be_reached(address: str) -> bool:
    """Whether a machine's connection may go to this address: a public one, and not the host's own."""
    return is_public(address) and not is_own(address)


def _plain(address: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return address.ipv4_mapped
        if address.scope_id is not None:
            return IPv6Address(int(address))
    return address
