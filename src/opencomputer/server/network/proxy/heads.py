"""Heads of requests and answers: what is refused, and what of them is passed on. Pure.

Nothing is passed on as it was read: a head is understood, and written anew from that, so that two readers
cannot understand it in two ways. What could be meant in two ways is refused all the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

import h11

from opencomputer.server.network.addresses import literal
from opencomputer.server.network.proxy.hello import split_authority, valid_host
from opencomputer.server.network.proxy.tokens import Substitution

Headers = list[tuple[bytes, bytes]]

MOST_HEAD_BYTES = 64 * 1024
_MOST_HEADERS = 256

_FRAMING = frozenset({b"content-length", b"transfer-encoding"})
_HOP_BY_HOP = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-connection",
        b"proxy-authorization",
        b"proxy-authenticate",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    }
)


class Refusal(Exception):
    """An answer of ours instead of the host's. `reason` is the audit's word for it."""

    def __init__(self, status: int, reason: str, text: str, host: str | None = None) -> None:
        super().__init__(text)
        self.status = status
        self.reason = reason
        self.text = text
        self.host = host


@dataclass(frozen=True)
class Framing:
    """How long the body of a request is said to be, and whether the host is asked before it is sent."""

    headers: Headers
    expect: bool = True


def check_head(head: bytes) -> None:
    """Refuse a request's head, up to its empty line, that others might read differently. Raises Refusal."""
    lines = head[: -len(b"\r\n\r\n")].split(b"\r\n")
    if len(lines) > _MOST_HEADERS:
        raise Refusal(431, "bad_request", "The request has too many headers.")
    if any(re.search(rb"[\r\n\x00]", line) for line in lines):
        raise Refusal(400, "bad_request", "The request's head has a line end that is none, or a null byte.")
    if any(line[:1] in (b" ", b"\t") for line in lines):
        raise Refusal(400, "bad_request", "The request has a header that goes on in the next line.")
    names = [line.partition(b":")[0].lower() for line in lines[1:]]
    if names.count(b"content-length") + names.count(b"transfer-encoding") > 1:
        raise Refusal(400, "bad_request", "The request says in more than one way how long its body is.")
    if names.count(b"host") > 1:
        raise Refusal(400, "bad_request", "The request names its host more than once.")


def header(event: h11.Request | h11.Response, name: bytes) -> bytes:
    """The value of a header, all lines of it; empty when it is not there."""
    return b", ".join(value for key, value in event.headers if key == name)


def requested_authority(request: h11.Request, default_port: int) -> tuple[str, int] | None:
    """Host and port that a request is for, None if it does not say. Raises Refusal."""
    absolute = re.match(rb"(?i)https?://([^/?#]*)", request.target)
    texts = {header(request, b"host"), *((absolute[1],) if absolute else ())} - {b""}
    found = {_authority(text, default_port) for text in texts}
    if len(found) > 1:
        raise Refusal(421, "host_mismatch", "The request names two hosts.")
    return found.pop() if found else None


def _authority(text: bytes, default_port: int) -> tuple[str, int]:
    split = split_authority(text.decode("latin-1"), default_port)
    host = None if split is None else literal(split[0]) or valid_host(split[0])
    if split is None or host is None:
        raise Refusal(400, "bad_request", "The request's host is not a host name.")
    return host, split[1]


def origin_form(target: bytes) -> bytes:
    """The target as servers get it: without scheme and host."""
    if target.startswith((b"/", b"*")):
        return target
    rest = re.sub(rb"(?i)\Ahttps?://[^/?#]*", b"", target)
    return rest if rest.startswith(b"/") else b"/" + rest


def wants_websocket(request: h11.Request) -> bool:
    tokens = {token.strip().lower() for token in header(request, b"connection").split(b",")}
    return b"upgrade" in tokens and header(request, b"upgrade").strip().lower() == b"websocket"


def outgoing_request(request: h11.Request, substitution: Substitution, framing: Framing) -> h11.Request:
    """The request as the host gets it."""
    headers: Headers = []
    for name, value in request.headers.raw_items():
        key = name.lower()
        if key in _HOP_BY_HOP or key in _FRAMING or (key == b"expect" and not framing.expect):
            continue
        headers.append((name, value if key == b"host" else substitution.in_header(value)))
    headers += framing.headers
    if wants_websocket(request):
        headers += [(b"Connection", b"Upgrade"), (b"Upgrade", b"websocket")]
    elif b"trailers" in header(request, b"te").lower():
        headers += [(b"Connection", b"TE"), (b"TE", b"trailers")]
    return h11.Request(
        method=request.method, target=substitution.in_target(origin_form(request.target)), headers=headers
    )


def passed_on(headers: Iterable[tuple[bytes, bytes]], *, without: frozenset[bytes] = frozenset()) -> Headers:
    """What of an answer's headers is meant for the client and not for us."""
    return [
        (name, value)
        for name, value in headers
        if name.lower() not in _HOP_BY_HOP and name.lower() not in without
    ]


def trailers(headers: Iterable[tuple[bytes, bytes]]) -> Headers:
    """What may stand behind a body: nothing that decides how it is read."""
    forbidden = _FRAMING | {b"host", b"authorization"}
    return passed_on(headers, without=forbidden)
