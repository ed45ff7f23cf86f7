"""Why no server answered, in words for people. No I/O here."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast
from urllib.parse import urlsplit

from opencomputer.sdk.endpoint import is_loopback
from opencomputer.sdk.errors import AnswerLostError
from opencomputer.sdk.http import httpx

_CHECK_ADDRESS = "check the address: oc config show, oc config set api-url URL"
_START = "start one on this machine with `oc serve`, or name another: oc config set api-url URL"


@dataclass(frozen=True)
class Unreachable:
    message: str
    hint: str


def explained(error: httpx.TransportError) -> Unreachable:
    """What an error below HTTP means, and what to do about it."""
    url = _url(error)
    host = urlsplit(url).hostname or "the server"
    causes = list(_causes(error))
    for cause in causes:
        if isinstance(cause, ssl.SSLCertVerificationError):
            reason = cause.verify_message or "it is not trusted"
            return Unreachable(
                f"the certificate of {host} cannot be verified: {reason}",
                "if it has an authority of its own, name its certificate in SSL_CERT_FILE",
            )
    if any(isinstance(cause, ssl.SSLError) for cause in causes):
        return Unreachable(f"{host} does not answer in TLS", "perhaps its address begins with http://")
    if any(isinstance(cause, socket.gaierror) for cause in causes):
        return Unreachable(_unreached(url, f"there is no host {host}"), _CHECK_ADDRESS)
    local = is_loopback(host)
    if any(isinstance(cause, ConnectionRefusedError) for cause in causes):
        return Unreachable(_unreached(url, "nothing listens there"), _START if local else _CHECK_ADDRESS)
    if isinstance(error, httpx.ConnectTimeout):
        return Unreachable(_unreached(url, "it does not answer"), _CHECK_ADDRESS)
    if isinstance(error, httpx.TimeoutException):
        return Unreachable(
            f"{url or 'the server'} did not answer in time", "try again; `oc ls` shows what was done"
        )
    if isinstance(error, AnswerLostError):
        return Unreachable(f"{url or 'the server'} broke off in the middle of its answer", "try again")
    if isinstance(error, httpx.RemoteProtocolError):
        hint = "perhaps its address begins with https://" if url.startswith("http:") else _CHECK_ADDRESS
        return Unreachable(_unreached(url, "the connection ended without an answer"), hint)
    return Unreachable(
        _unreached(url, str(error) or type(error).__name__), _START if local else _CHECK_ADDRESS
    )


def _unreached(url: str, reason: str) -> str:
    return f"the server cannot be reached{f' at {url}' if url else ''}: {reason}"


def _url(error: httpx.TransportError) -> str:
    try:
        url = error.request.url
    except RuntimeError:
        return ""
    return f"{url.scheme}://{url.netloc.decode()}"


def _causes(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting:
        each = waiting.pop(0)
        if each is None or id(each) in seen:
            continue
        seen.add(id(each))
        yield each
        waiting += [each.__cause__, each.__context__]
        if isinstance(each, BaseExceptionGroup):
            waiting += cast("BaseExceptionGroup[BaseException]", each).exceptions
