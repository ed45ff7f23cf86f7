"""What of a visitor's request is for us, what reaches the program, and what comes back. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from opencomputer.server.domain.previews import Presented

Headers = Sequence[tuple[bytes, bytes]]

TOKEN_HEADER = b"x-oc-preview-token"
LINK_PARAMETER = b"oc_preview_grant"
SECURE_COOKIE = b"__Host-oc-preview"
PLAIN_COOKIE = b"oc-preview"
_COOKIES = (SECURE_COOKIE, PLAIN_COOKIE)
_HOP_BY_HOP = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    }
)
_OURS = frozenset(
    {
        TOKEN_HEADER,
        b"host",
        # Answered by the server when the program begins to read.
        b"expect",
        b"forwarded",
        b"x-forwarded-for",
        b"x-forwarded-host",
        b"x-forwarded-port",
        b"x-forwarded-proto",
        b"x-forwarded-server",
        b"x-real-ip",
    }
)


def first(headers: Headers, name: bytes) -> bytes | None:
    return next((value for key, value in headers if key.lower() == name), None)


def presented(headers: Headers, query: bytes) -> Presented:
    """What a visitor has shown, wherever it may stand."""
    header = first(headers, TOKEN_HEADER)
    scheme, _, bearer = (first(headers, b"authorization") or b"").partition(b" ")
    link = next((part.partition(b"=")[2] for part in query.split(b"&") if _is_link(part)), None)
    cookies = [
        value.strip()
        for key, text in headers
        if key.lower() == b"cookie"
        for name, _, value in (part.partition(b"=") for part in text.split(b";"))
        if name.strip() in _COOKIES
    ]
    return Presented(
        header=None if header is None else header.decode("latin-1"),
        bearer=bearer.strip().decode("latin-1") if scheme.lower() == b"bearer" else None,
        link=None if link is None else link.decode("latin-1"),
        cookies=tuple(each.decode("latin-1") for each in cookies),
    )


def without_link(query: bytes) -> bytes:
    """The query as it was sent, but for a grant's token."""
    return b"&".join(part for part in query.split(b"&") if not _is_link(part))


def _is_link(part: bytes) -> bool:
    return part.partition(b"=")[0] == LINK_PARAMETER


def target(scope: Any) -> bytes:
    """Path and query exactly as they came, but for a grant's token."""
    query = without_link(scope["query_string"])
    return (scope["raw_path"] or b"/") + (b"?" + query if query else b"")


def is_secure(scope: Any) -> bool:
    return scope["scheme"] in ("https", "wss")


def request_headers(scope: Any, *, bearer_was_token: bool, drop: Collection[bytes] = ()) -> list[Any]:
    """The headers for the program: the visitor's, but for those which concern only the way to us, those which
    are for us, and those by which somebody on the way says what only we know."""
    headers: Headers = scope["headers"]
    host = first(headers, b"host") or b""
    away = _OURS | _named_by_connection(headers) | frozenset(drop)
    passed = [(b"host", host)]
    for name, value in headers:
        name = name.lower()
        if name in away or (name == b"authorization" and bearer_was_token):
            continue
        if name == b"cookie":
            value = _without_cookies(value)
            if not value:
                continue
        passed.append((name, value))
    client = scope.get("client")
    return [
        *passed,
        (b"x-forwarded-for", (client[0] if client else "unknown").encode("latin-1", "replace")),
        (b"x-forwarded-proto", b"https" if is_secure(scope) else b"http"),
        (b"x-forwarded-host", host),
    ]


def answer_headers(headers: Iterable[tuple[bytes, bytes]], *, status: int) -> list[tuple[bytes, bytes]]:
    """The headers for the visitor. The program must not set the cookies by which visitors are let in."""
    kept = [(name.lower(), value) for name, value in headers]
    # The server says the date itself, and takes a length as one of what follows.
    away = _named_by_connection(kept) | {b"date"} | ({b"content-length"} if status == 304 else set[bytes]())
    return [
        (name, value)
        for name, value in kept
        if name not in away and not (name == b"set-cookie" and value.partition(b"=")[0].strip() in _COOKIES)
    ]


def _named_by_connection(headers: Headers) -> frozenset[bytes]:
    """Headers that are for the next one on the way only."""
    named = {
        each.strip().lower()
        for name, value in headers
        if name.lower() == b"connection"
        for each in value.split(b",")
    }
    return _HOP_BY_HOP | named


def _without_cookies(value: bytes) -> bytes:
    parts = value.split(b";")
    kept = [part for part in parts if part.partition(b"=")[0].strip() not in _COOKIES]
    return value if len(kept) == len(parts) else b";".join(kept).strip()


def cookie(token: str, *, secure: bool, seconds: int) -> bytes:
    """Remembers a grant on one host name. Inside of a frame of another site browsers send cookies over TLS
    only."""
    name = SECURE_COOKIE if secure else PLAIN_COOKIE
    ways = b"Secure; SameSite=None; Partitioned" if secure else b"SameSite=Lax"
    return b"%s=%s; Path=/; Max-Age=%d; HttpOnly; %s" % (name, token.encode("latin-1"), seconds, ways)
