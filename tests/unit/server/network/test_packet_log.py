"""What the kernel tells of packets, which it copies from machines: hostile input."""

from __future__ import annotations

import socket
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as some

from opencomputer.server.network.packet_log import ToldPacket, told_packets


def attribute(kind: int, value: bytes) -> bytes:
    return struct.pack("=HH", 4 + len(value), kind) + value + bytes(-len(value) % 4)


def told(prefix: str, head: bytes) -> bytes:
    """One message of the kernel."""
    content = bytes(4) + attribute(10, prefix.encode() + b"\0") + attribute(9, head)
    return struct.pack("=IHHII", 16 + len(content), 4 << 8, 0, 0, 0) + content


def head(protocol: int, *, version: int = 4, words: int = 5, offset: int = 0, options: bytes = b"") -> bytes:
    fixed = struct.pack("!BBHHHBBH", version << 4 | words, 0, 60, 1, offset, 64, protocol, 0)
    addresses = socket.inet_aton("10.231.0.2") + socket.inet_aton("203.0.113.7")
    return fixed + addresses + options + struct.pack("!HH", 40000, 443) + bytes(8)


def test_several_packets_of_one_datagram() -> None:
    datagram = told("allowed", head(6)) + told("denied", head(17, words=6, options=bytes(4)))
    assert list(told_packets(datagram)) == [
        ToldPacket(True, "tcp", "10.231.0.2", "203.0.113.7", 443),
        ToldPacket(False, "udp", "10.231.0.2", "203.0.113.7", 443),
    ]


@pytest.mark.parametrize(
    "content",
    [b"", head(1), head(6)[:22], head(6, version=6), head(6, words=15), head(6, words=4), head(17, offset=7)],
    ids=["nothing", "icmp", "cut", "another version", "long header", "short header", "a later piece"],
)
def test_what_has_no_ports_is_left_out(content: bytes) -> None:
    assert list(told_packets(told("allowed", content))) == []


@given(some.binary(max_size=200))
def test_any_head_is_read_or_left_out(content: bytes) -> None:
    assert len(list(told_packets(told("allowed", content)))) <= 1


@given(some.binary(max_size=300))
def test_any_datagram_is_read_to_its_end(datagram: bytes) -> None:
    assert len(list(told_packets(datagram))) <= len(datagram)
