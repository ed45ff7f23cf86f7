"""What the packet filter tells of conversations that do not pass the proxy: begun, or refused.

The kernel sends the head of such a packet to whoever has bound the filter's log group (nfnetlink_log, see
linux/netfilter/nfnetlink_log.h). It sends few enough of each machine's, see the ruleset.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

import structlog

from opencomputer.server.contracts.clock import Clock
from opencomputer.server.contracts.egress import EgressLog, EgressTable
from opencomputer.server.domain.egress_events import EgressEvent

_log = structlog.get_logger(__name__)

ALLOWED, DENIED = "allowed", "denied"
"""What the ruleset puts before what it tells."""
HEAD_BYTES = 64
"""Enough for every IPv4 header and the ports behind it."""

_NETFILTER = 12
_SUBSYSTEM = 4 << 8
_PACKET, _CONFIGURE = _SUBSYSTEM | 0, _SUBSYSTEM | 1
_ERROR = 2
_REQUEST_AND_ACKNOWLEDGE = 1 | 4
_COMMAND, _MODE = 1, 2
_BIND, _COPY_PACKET = 1, 2
_PAYLOAD, _PREFIX = 9, 10
_TYPE_MASK = 0x3FFF
_MAX_DATAGRAM = 1 << 20
_AT_ONCE = 64
_PROTOCOLS: dict[int, Literal["tcp", "udp"]] = {6: "tcp", 17: "udp"}


@dataclass(frozen=True)
class ToldPacket:
    allowed: bool
    protocol: Literal["tcp", "udp"]
    source: str
    target: str
    port: int


def told_packets(datagram: bytes) -> Iterator[ToldPacket]:
    """The TCP and UDP packets that a datagram of the kernel tells of. What is cut short is left out."""
    for kind, content in _messages(datagram):
        if kind == _PACKET:
            attributes = dict(_attributes(content[4:]))
            prefix = attributes.get(_PREFIX, b"").rstrip(b"\0").decode("ascii", "replace")
            packet = _packet(prefix, attributes.get(_PAYLOAD, b""))
            if packet is not None:
                yield packet


def _packet(prefix: str, head: bytes) -> ToldPacket | None:
    length = (head[0] & 0xF) * 4 if head else 0
    if length < 20 or len(head) < length + 4 or head[0] >> 4 != 4:
        return None
    protocol = _PROTOCOLS.get(head[9])
    # A later piece of a packet has no ports.
    if protocol is None or int.from_bytes(head[6:8], "big") & 0x1FFF:
        return None
    port = int.from_bytes(head[length + 2 : length + 4], "big")
    source, target = socket.inet_ntoa(head[12:16]), socket.inet_ntoa(head[16:20])
    return ToldPacket(prefix == ALLOWED, protocol, source, target, port)


def _messages(datagram: bytes) -> Iterator[tuple[int, bytes]]:
    start = 0
    while start + 16 <= len(datagram):
        length, kind = struct.unpack_from("=IH", datagram, start)
        if length < 16:
            return
        yield kind, datagram[start + 16 : start + length]
        start += -(-length // 4) * 4


def _attributes(content: bytes) -> Iterator[tuple[int, bytes]]:
    start = 0
    while start + 4 <= len(content):
        length, kind = struct.unpack_from("=HH", content, start)
        if length < 4:
            return
        yield kind & _TYPE_MASK, content[start + 4 : start + length]
        start += -(-length // 4) * 4


class PacketLog:
    """Writes down what the filter tells about machines that somebody has rules for."""

    def __init__(self, table: EgressTable, log: EgressLog, clock: Clock) -> None:
        self._table = table
        self._log = log
        self._clock = clock
        self._socket: socket.socket | None = None

    def open(self, group: int) -> None:
        """Listen, in the running loop. A kernel without this kind of log is warned of, once."""
        sock = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, _NETFILTER)
        try:
            sock.bind((0, 0))
            _configure(sock, group, _COMMAND, bytes([_BIND]))
            _configure(sock, group, _MODE, struct.pack("!IBB", HEAD_BYTES, _COPY_PACKET, 0))
        except OSError as error:
            sock.close()
            _log.warning("connections that do not pass the proxy are not written down", error=str(error))
            return
        sock.setblocking(False)
        asyncio.get_running_loop().add_reader(sock, self._read)
        self._socket = sock

    def close(self) -> None:
        sock, self._socket = self._socket, None
        if sock is not None:
            asyncio.get_running_loop().remove_reader(sock)
            sock.close()

    def _read(self) -> None:
        assert self._socket is not None
        # OSError: there is nothing more, or the kernel could not keep what it wanted to tell.
        with suppress(OSError):
            for _ in range(_AT_ONCE):
                for packet in told_packets(self._socket.recv(_MAX_DATAGRAM)):
                    self._record(packet)

    def _record(self, packet: ToldPacket) -> None:
        rules = self._table.rules(packet.source)
        if rules is None:
            return
        self._log.record(
            EgressEvent(
                at=self._clock.now(),
                org_id=rules.org_id,
                sandbox_id=rules.sandbox_id,
                protocol=packet.protocol,
                host=packet.target,
                port=packet.port,
                decision="allowed" if packet.allowed else "denied",
                reason=None if packet.allowed else "packet_filter",
                address=packet.target,
            )
        )


def _configure(sock: socket.socket, group: int, attribute: int, value: bytes) -> None:
    """Raises OSError with what the kernel says."""
    attributes = struct.pack("=HH", 4 + len(value), attribute) + value + bytes(-len(value) % 4)
    body = struct.pack("=BBH", socket.AF_INET, 0, socket.htons(group)) + attributes
    sock.send(struct.pack("=IHHII", 16 + len(body), _CONFIGURE, _REQUEST_AND_ACKNOWLEDGE, 1, 0) + body)
    while True:
        kind, answer = next(_messages(sock.recv(_MAX_DATAGRAM)))
        if kind == _ERROR:
            code = -struct.unpack_from("=i", answer)[0]
            if code:
                raise OSError(code, "the packet filter's log cannot be listened to")
            return
