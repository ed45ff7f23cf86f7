"""What the first bytes of a connection say it is, and which host they name. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from opencomputer.server.domain.egress import normal_host

MOST_BYTES = 64 * 1024
"""More than this is not waited for: it is no beginning of anything we know."""

_RECORD, _HANDSHAKE, _CLIENT_HELLO, _SERVER_NAME = 5, 22, 1, 0
_MOST_HELLO = 32 * 1024
_METHOD = re.compile(rb"[A-Z][A-Z-]{0,23}( |\Z)")
_VERSION = re.compile(rb" HTTP/1\.[01]\r?\Z")
_LABEL = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?")
_MOST_LINE = 16 * 1024


class Kind(Enum):
    """What a connection is spoken in, as its first bytes tell."""

    UNKNOWN = "unknown"
    TLS = "tls"
    HTTP = "http"


@dataclass(frozen=True)
class Beginning:
    """`host` as the client names it, None when it names none; an empty one is no possible name."""

    kind: Kind
    host: str | None = None


NOTHING_KNOWN = Beginning(Kind.UNKNOWN)


def recognise(start: bytes) -> Beginning | None:
    """What begins with these bytes; None as long as more of them are needed to know."""
    if not start:
        return None
    if start[0] == _HANDSHAKE:
        return _recognise_tls(start)
    if _METHOD.match(start[:25]):
        return _recognise_http(start)
    return NOTHING_KNOWN


def valid_host(name: str) -> str | None:
    """The normal form of a host name; None for what cannot be one."""
    host = normal_host(name)
    labels = host.split(".")
    if len(host) > 253 or not all(_LABEL.fullmatch(label) for label in labels):
        return None
    return host


def split_authority(text: str, default_port: int) -> tuple[str, int] | None:
    """Host and port of `host`, `host:port` or `[address]:port`; None for anything else."""
    found = re.fullmatch(r"(\[[0-9A-Fa-f:.]+\]|[^\s:/?#@\[\]\\]+)(?::(\d{1,5}))?", text)
    if found is None:
        return None
    port = int(found[2]) if found[2] else default_port
    return (found[1], port) if 1 <= port <= 65535 else None


def _recognise_tls(start: bytes) -> Beginning | None:
    """Puts the records together as far as the ClientHello goes: it may be spread over several."""
    handshake, offset = b"", 0
    while True:
        if len(start) < offset + _RECORD:
            return None if len(start) < _MOST_HELLO else NOTHING_KNOWN
        length = int.from_bytes(start[offset + 3 : offset + 5], "big")
        if start[offset] != _HANDSHAKE or start[offset + 1] != 3 or not 0 < length <= 16_640:
            return NOTHING_KNOWN
        handshake += start[offset + _RECORD : offset + _RECORD + length]
        offset += _RECORD + length
        if len(handshake) >= 4:
            size = int.from_bytes(handshake[1:4], "big")
            if handshake[0] != _CLIENT_HELLO or size > _MOST_HELLO:
                return NOTHING_KNOWN
            if len(handshake) >= 4 + size:
                return _hello(handshake[4 : 4 + size])


def _hello(body: bytes) -> Beginning:
    try:
        return Beginning(Kind.TLS, _server_name(body))
    except IndexError:
        return NOTHING_KNOWN


def _server_name(body: bytes) -> str | None:
    """Raises IndexError when the message is cut short anywhere."""
    at = 2 + 32
    at += 1 + body[at]
    at += 2 + _number(body, at)
    at += 1 + body[at]
    if at == len(body):
        return None
    end = at + 2 + _number(body, at)
    at += 2
    while at < end:
        kind, length = _number(body, at), _number(body, at + 2)
        extension = _slice(body, at + 4, length)
        at += 4 + length
        if kind == _SERVER_NAME:
            # One list with one entry of the only type there is.
            name = _slice(extension, 5, _number(extension, 3)) if extension[2] == 0 else b""
            return valid_host(name.decode("ascii", "replace")) or ""
    return None


def _number(data: bytes, at: int) -> int:
    return data[at] << 8 | data[at + 1]


def _slice(data: bytes, at: int, length: int) -> bytes:
    if at + length > len(data):
        raise IndexError
    return data[at : at + length]


def _recognise_http(start: bytes) -> Beginning | None:
    line, ended, _ = start.partition(b"\n")
    if not ended:
        return None if len(start) < _MOST_LINE else NOTHING_KNOWN
    if not _VERSION.search(line):
        return NOTHING_KNOWN
    head, ended, _ = start.partition(b"\r\n\r\n")
    if not ended:
        return None if len(start) < MOST_BYTES else Beginning(Kind.HTTP, "")
    hosts = re.findall(rb"(?im)^host:[ \t]*(.*?)[ \t]*\r?$", head)
    if not hosts:
        return Beginning(Kind.HTTP)
    authority = split_authority(hosts[0].decode("latin-1"), 80)
    if len(hosts) > 1 or authority is None:
        return Beginning(Kind.HTTP, "")
    if authority[0].startswith("["):
        return Beginning(Kind.HTTP, authority[0])
    return Beginning(Kind.HTTP, valid_host(authority[0]) or "")
