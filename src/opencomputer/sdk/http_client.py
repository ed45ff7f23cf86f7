"""The client of httpx that every part of this SDK talks through."""

from __future__ import annotations

import ssl
from importlib.util import find_spec

from opencomputer.sdk.endpoint import is_loopback
from opencomputer.sdk.http import httpx


def http_client(
    base: httpx.URL,
    *,
    headers: dict[str, str] | None = None,
    transport: httpx.AsyncBaseTransport | None = None,
) -> httpx.AsyncClient:
    """A client for one server. What it is asked below a relative path is below the server's root.

    Proxies of the environment are used, but not for this machine itself. Certificates are those of
    `SSL_CERT_FILE` or `SSL_CERT_DIR` where they are set. With the extra `http2` it offers HTTP/2 over TLS.
    """
    return httpx.AsyncClient(
        base_url=base,
        headers=headers,
        transport=transport,
        verify=_tls(base),
        http2=speaks_http2(base.scheme),
        trust_env=not is_loopback(base.host),
    )


def speaks_http2(scheme: str) -> bool:
    """Whether connections of this scheme offer HTTP/2."""
    return scheme == "https" and find_spec("h2") is not None


def _tls(base: httpx.URL) -> ssl.SSLContext:
    # Loading the machine's certificates costs tens of milliseconds, which a plain address has no use for. The
    # empty context trusts nobody, so that it could not weaken anything.
    if base.scheme == "http":
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    return httpx.create_ssl_context()
