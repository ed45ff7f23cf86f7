"""Opening WebSockets: one place for addresses, credentials, limits and errors."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit, urlunsplit

from opencomputer.sdk.endpoint import is_loopback
from opencomputer.sdk.errors import error_from
from opencomputer.sdk.http import httpx

if TYPE_CHECKING:
    from websockets.asyncio.client import ClientConnection

MAX_MESSAGE_BYTES = 16 * 1024 * 1024
_MESSAGES_READ_AHEAD = 1024
"""How far a slow callback may lag. Beyond that nothing is read, pings neither, and the link is soon lost."""
_OPEN_TIMEOUT_SECONDS = 30.0
# A server in the middle of a flood of output is not waited for longer.
_CLOSE_TIMEOUT_SECONDS = 1.0


@dataclass(frozen=True)
class Credential:
    """A secret in the two forms in which a socket carries it: as a header, and in the query."""

    query_name: str
    header_name: str
    secret: str

    @property
    def header_value(self) -> str:
        """The secret as the header wants it."""
        return f"Bearer {self.secret}" if self.header_name == "Authorization" else self.secret


@dataclass(frozen=True)
class SocketAddress:
    """A socket's `http(s)` address without its credential."""

    url: str
    credential: Credential | None


def sandbox_token(token: str) -> Credential:
    """The token of one sandbox."""
    return Credential("token", "Authorization", token)


def api_key(key: str) -> Credential | None:
    """An organisation's key; None when there is none."""
    return Credential("api_key", "X-API-Key", key) if key else None


async def open_socket(address: SocketAddress) -> ClientConnection:
    """Connect and return the open socket, which the caller closes.

    Raises an `OpenComputerError` when the server refuses, an `httpx.TransportError` when none is reached.
    """
    # Not before a socket is needed: many programs need none, and it takes long to load.
    from websockets.asyncio.client import connect
    from websockets.exceptions import InvalidHandshake, InvalidStatus

    url = websocket_url(address)
    credential = address.credential
    headers = {credential.header_name: credential.header_value} if credential else {}
    # No compression: an intermediary that negotiates it badly breaks the stream, and output is small.
    try:
        return await connect(
            url,
            additional_headers=headers,
            compression=None,
            max_size=MAX_MESSAGE_BYTES,
            max_queue=_MESSAGES_READ_AHEAD,
            open_timeout=_OPEN_TIMEOUT_SECONDS,
            close_timeout=_CLOSE_TIMEOUT_SECONDS,
            proxy=None if is_loopback(httpx.URL(address.url).host) else True,
        )
    except InvalidStatus as refusal:
        response = httpx.Response(
            refusal.response.status_code,
            headers=list(refusal.response.headers.raw_items()),
            content=bytes(refusal.response.body or b""),
            request=httpx.Request("GET", address.url),
        )
        raise error_from(response) from refusal
    except TimeoutError as error:
        raise httpx.ConnectTimeout("the socket did not open in time") from error
    except (OSError, ssl.SSLError, EOFError, InvalidHandshake) as error:
        raise httpx.ConnectError(f"the socket could not be opened: {error}") from error


def websocket_url(address: SocketAddress) -> str:
    """The `ws(s)` address with the credential in its query."""
    parts = urlsplit(address.url)
    scheme = "wss" if parts.scheme == "https" else "ws"
    credential = address.credential
    secret = f"{credential.query_name}={quote(credential.secret, safe='')}" if credential else ""
    query = "&".join(part for part in (parts.query, secret) if part)
    return urlunsplit((scheme, parts.netloc, parts.path, query, ""))
