"""Sending webhooks with httpx, to addresses that were looked at and to no others.

A host is resolved anew for each sending and the connection goes to one of the addresses that were vetted, so
that a name cannot mean something else a moment later. TLS still speaks to the host of the URL.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import certifi
import httpx

from opencomputer.server.contracts.webhooks import WebhookAnswer, WebhookFault
from opencomputer.server.domain.sessions.errors import DestinationForbidden
from opencomputer.server.domain.webhooks.targets import Target, is_forbidden, target_of

TOTAL_SECONDS = 15.0
KEPT_BYTES = 1024
_CONNECT_SECONDS = 5.0
_CHECK_SECONDS = 5.0
_MOST_ADDRESSES = 4
_RESOLVERS = 16
_NOT_FOUND = {socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME)}

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""Addresses of a host. Raises OSError."""


class HttpWebhookSender:
    """Implements WebhookSender. With `allow_private`, plain HTTP and private addresses are fine."""

    def __init__(
        self,
        *,
        allow_private: bool = False,
        resolve: Resolve | None = None,
        trust: ssl.SSLContext | None = None,
        total_seconds: float = TOTAL_SECONDS,
    ) -> None:
        self._allow_private = allow_private
        # Of its own: lookups that hang must not keep the rest of the server from its threads.
        self._threads = ThreadPoolExecutor(_RESOLVERS, thread_name_prefix="webhook-names")
        self._resolve = resolve or self._look_up
        self._trust = trust or _usual_trust()
        self._total_seconds = total_seconds

    async def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def check(self, url: str) -> None:
        """See WebhookSender. A host that just cannot be looked up at the moment is not refused."""
        target = target_of(url, insecure=self._allow_private)
        if self._allow_private:
            return
        try:
            async with asyncio.timeout(_CHECK_SECONDS):
                addresses = await self._resolve(target.host, target.port)
        except socket.gaierror as error:
            if error.errno in _NOT_FOUND:
                raise DestinationForbidden("url must have a host that exists", field="url") from error
        except OSError:
            # Timeouts are among these.
            return
        else:
            self._vet(addresses)

    async def post(self, url: str, headers: Mapping[str, str], body: bytes) -> WebhookAnswer:
        """See WebhookSender."""
        target = target_of(url, insecure=self._allow_private)
        try:
            async with asyncio.timeout(self._total_seconds):
                try:
                    addresses = self._vet(await self._resolve(target.host, target.port))
                except OSError as error:
                    raise WebhookFault("the host cannot be looked up") from error
                return await self._post(target, addresses, headers, body)
        except TimeoutError as error:
            raise WebhookFault(f"no answer within {self._total_seconds:g} seconds") from error

    def _vet(self, addresses: Sequence[str]) -> Sequence[str]:
        if not self._allow_private and any(is_forbidden(each) for each in addresses):
            raise DestinationForbidden("url must not lead to a private address", field="url")
        return addresses[:_MOST_ADDRESSES]

    async def _post(
        self, target: Target, addresses: Sequence[str], headers: Mapping[str, str], body: bytes
    ) -> WebhookAnswer:
        # Without anything kept alive: a connection made for one host must not serve another at its address.
        limits = httpx.Limits(max_keepalive_connections=0)
        timeout = httpx.Timeout(self._total_seconds, connect=_CONNECT_SECONDS)
        async with httpx.AsyncClient(
            verify=self._trust, limits=limits, timeout=timeout, trust_env=False, follow_redirects=False
        ) as client:
            failed = WebhookFault("the host has no address")
            for address in addresses:
                request = _request(target, address, headers, body)
                try:
                    return await _answer(client, request)
                except httpx.ConnectError as error:
                    failed = _fault(error)
                except httpx.HTTPError as error:
                    raise _fault(error) from error
            raise failed

    async def _look_up(self, host: str, port: int) -> Sequence[str]:
        loop = asyncio.get_running_loop()
        found = await loop.run_in_executor(
            self._threads, lambda: socket.getaddrinfo(host.encode(), port, type=socket.SOCK_STREAM)
        )
        return list(dict.fromkeys(str(each[4][0]) for each in found))


def _usual_trust() -> ssl.SSLContext:
    """What the host trusts, and what browsers do."""
    trust = ssl.create_default_context()
    trust.load_verify_locations(certifi.where())
    return trust


def _request(target: Target, address: str, headers: Mapping[str, str], body: bytes) -> httpx.Request:
    url = httpx.URL(
        scheme="https" if target.secure else "http",
        host=address,
        port=target.port,
        raw_path=target.path.encode(),
    )
    own = {"Host": target.authority, "Accept": "*/*", "Accept-Encoding": "identity", "Connection": "close"}
    return httpx.Request(
        "POST", url, headers={**headers, **own}, content=body, extensions={"sni_hostname": target.host}
    )


async def _answer(client: httpx.AsyncClient, request: httpx.Request) -> WebhookAnswer:
    response = await client.send(request, stream=True)
    try:
        if response.is_success:
            return WebhookAnswer(response.status_code)
        excerpt = await _excerpt(response)
        return WebhookAnswer(response.status_code, excerpt, _seconds(response.headers.get("retry-after", "")))
    finally:
        await response.aclose()


async def _excerpt(response: httpx.Response) -> str:
    """The beginning of what it says; as much of it as comes."""
    kept = bytearray()
    try:
        async with asyncio.timeout(_CHECK_SECONDS):
            async for piece in response.aiter_raw(KEPT_BYTES):
                kept += piece
                if len(kept) >= KEPT_BYTES:
                    break
    except (httpx.HTTPError, TimeoutError):
        pass
    text = bytes(kept[:KEPT_BYTES]).decode(errors="replace")
    return "".join(letter if letter.isprintable() else " " for letter in text).strip()


def _seconds(text: str) -> float | None:
    return float(text) if text.isascii() and text.isdigit() and len(text) < 12 else None


def _fault(error: httpx.HTTPError) -> WebhookFault:
    if isinstance(error, httpx.TimeoutException):
        return WebhookFault("the receiver did not answer in time")
    if isinstance(error, httpx.ConnectError):
        cause: BaseException | None = error
        while cause is not None:
            if isinstance(cause, ssl.SSLError):
                return WebhookFault("the receiver's certificate is not valid for its name")
            cause = cause.__cause__ or cause.__context__
        return WebhookFault("no connection could be made")
    return WebhookFault("the receiver broke the connection off, or answered something that is no HTTP")
