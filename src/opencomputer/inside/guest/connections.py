"""Connections of the machine to elsewhere, as its kernel lists them in /proc/net/tcp."""

from __future__ import annotations

from collections.abc import Iterator

from . import protocol

_LISTS = ("/proc/net/tcp", "/proc/net/tcp6")
_WITHOUT_PEER = frozenset({"07", "0A"})
"""CLOSE and LISTEN (include/net/tcp_states.h): there is nothing to cut. TIME_WAIT is cut like any other: the
runtime lists only what a program still has open, which ended its own half first and has not closed it yet."""
_MAPPED = "0000000000000000FFFF0000"
"""The first 96 bits of an IPv4 address written as an IPv6 one, each four bytes in the order of the host."""
_LOOPBACK_6 = "00000000000000000000000001000000"


def count_connections() -> int:
    """How many TCP connections to elsewhere there are, those from the host to this guest left out."""
    return sum(_leaves(*entry) for entry in _entries())


def _entries() -> Iterator[tuple[str, str, str]]:
    for path in _LISTS:
        try:
            with open(path, encoding="ascii") as lines:
                next(lines, None)
                for line in lines:
                    _, local, remote, state, *_ = line.split()
                    yield local, remote, state
        except (OSError, ValueError):
            continue


def _leaves(local: str, remote: str, state: str) -> bool:
    address = remote.partition(":")[0]
    near = address == _LOOPBACK_6 or address.removeprefix(_MAPPED)[6:8] == "7F"
    own = int(local.partition(":")[2], 16) == protocol.PORT
    return state not in _WITHOUT_PEER and not near and not own
