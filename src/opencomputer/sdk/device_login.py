"""The calls by which a client without a key gets one: a person approves it elsewhere, the client waits."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from opencomputer.sdk.answers import JsonObject, is_json_object, json_object, text
from opencomputer.sdk.endpoint import api_base, is_loopback
from opencomputer.sdk.errors import OpenComputerError, UnexpectedAnswerError, error_from
from opencomputer.sdk.http import httpx
from opencomputer.sdk.http_client import http_client

REQUEST_SECONDS = 30.0
MOST_ANSWER_BYTES = 64 << 10
_USUAL_INTERVAL_SECONDS = 5.0
_LONGEST_INTERVAL_SECONDS = 60.0
_TOLERATED_OUTAGES = 2
_ACCEPTED = 202
_PENDING = "authorization_pending"
_OUTAGE = "auth_provider_unavailable"
_KEY = re.compile(r"osb_[0-9a-f]{64}")

Sleep = Callable[[float], Awaitable[None]]


class LoginExpiredError(Exception):
    """Nobody approved the login in time."""


@dataclass(frozen=True)
class StartedLogin:
    """A login that waits. The person needs `user_code` and one of the two addresses."""

    device_code: str = field(repr=False)
    user_code: str
    verification_uri: str
    verification_uri_complete: str
    expires_in: float
    interval: float


@dataclass(frozen=True)
class Credential:
    """What an approved login gets."""

    id: str
    key: str = field(repr=False)
    key_prefix: str
    name: str


@dataclass(frozen=True)
class Waiting:
    """How to wait: replaced by tests, which have no time."""

    sleep: Sleep = asyncio.sleep
    now: Callable[[], float] = time.monotonic


class DeviceLogin:
    """Talks to one server, at its root. Close it, or use it as a context manager.

    Raises an `OpenComputerError` for an error status, `UnexpectedAnswerError` for an answer that is none,
    and an `httpx.TransportError` when none came.
    """

    def __init__(
        self,
        api_url: str,
        *,
        waiting: Waiting | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._root = httpx.URL(api_base(api_url).removesuffix("/api"))
        self._waiting = waiting or Waiting()
        self._client = http_client(self._root, transport=transport)

    async def start(self) -> StartedLogin:
        """Ask for a login."""
        _, answer = await self._call("POST", "/auth/cli/device", {})
        started = StartedLogin(
            device_code=text(answer, "device_code"),
            user_code=text(answer, "user_code"),
            verification_uri=text(answer, "verification_uri"),
            verification_uri_complete=text(answer, "verification_uri_complete"),
            expires_in=_seconds(answer, "expires_in"),
            interval=max(_seconds(answer, "interval") or _USUAL_INTERVAL_SECONDS, 1.0),
        )
        self._check(started)
        return started

    async def credential(self, started: StartedLogin, name: str) -> Credential:
        """Wait until somebody has approved it, and fetch the key. Raises LoginExpiredError."""
        body = {"device_code": started.device_code, "credential_name": name}
        interval, outages = started.interval, 0
        until = self._waiting.now() + started.expires_in
        while self._waiting.now() < until:
            await self._waiting.sleep(interval)
            try:
                status, answer = await self._call("POST", "/auth/cli/device/exchange", body)
            except OpenComputerError as error:
                outages += 1
                if reason_of(error) != _OUTAGE or outages > _TOLERATED_OUTAGES:
                    raise
                continue
            outages = 0
            if status != _ACCEPTED:
                return _credential(answer)
            if answer.get("status", _PENDING) != _PENDING:
                raise UnexpectedAnswerError("the server's answer to the login is unknown")
            interval = min(max(interval, _seconds(answer, "retry_after")), _LONGEST_INTERVAL_SECONDS)
        raise LoginExpiredError

    async def decide(self, key: str, user_code: str, *, approve: bool) -> JsonObject:
        """Let the client with this code in, or refuse it, as the holder of a key."""
        body = {"user_code": user_code, "approve": approve}
        return (await self._call("POST", "/auth/cli/device/decide", body, key))[1]

    async def revoke(self, key: str) -> None:
        """Revoke the key. One that does not count any more, or a server that knows none, is no error."""
        try:
            await self._call("DELETE", "/auth/cli/credential", None, key)
        except OpenComputerError as error:
            if error.status not in (401, 404):
                raise

    async def _call(
        self, method: str, path: str, body: object = None, key: str = ""
    ) -> tuple[int, JsonObject]:
        url = self._root.copy_with(path=self._root.path.rstrip("/") + path)
        headers = {"X-API-Key": key} if key else {}
        async with self._client.stream(
            method, url, json=body, headers=headers, timeout=REQUEST_SECONDS
        ) as response:
            content = bytearray()
            async for chunk in response.aiter_bytes():
                content += chunk
                if len(content) > MOST_ANSWER_BYTES:
                    raise UnexpectedAnswerError("the server's answer is too long for a login")
        whole = httpx.Response(response.status_code, content=bytes(content), request=response.request)
        if response.is_redirect:
            raise UnexpectedAnswerError("the server's answer leads elsewhere, which no login follows")
        if not response.is_success:
            raise error_from(whole)
        return response.status_code, _object(bytes(content))

    def _check(self, started: StartedLogin) -> None:
        if not (started.device_code and started.user_code and started.expires_in > 0):
            raise UnexpectedAnswerError("the server's answer to the login is incomplete")
        for address in (started.verification_uri, started.verification_uri_complete):
            try:
                url = httpx.URL(address)
            except httpx.InvalidURL as error:
                raise UnexpectedAnswerError("the login's page has no address") from error
            if started.device_code in address or not url.host:
                raise UnexpectedAnswerError("the address of the login's page cannot be trusted")
            # A server that was itself addressed without TLS has its page there, too.
            own = (url.scheme, url.host) == (self._root.scheme, self._root.host)
            if url.scheme != "https" and not (url.scheme == "http" and (is_loopback(url.host) or own)):
                raise UnexpectedAnswerError("the address of the login's page is not encrypted")

    async def __aenter__(self) -> DeviceLogin:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._client.aclose()


def reason_of(error: OpenComputerError) -> str:
    """The word for what went wrong with a login: as its code, or where older servers have it."""
    return error.code or error.message


def _credential(answer: JsonObject) -> Credential:
    found = answer.get("credential")
    given = found if is_json_object(found) else {}
    key = text(given, "key")
    if not _KEY.fullmatch(key):
        raise UnexpectedAnswerError("the server gave no valid API key")
    return Credential(text(given, "id"), key, text(given, "key_prefix"), text(given, "name"))


def _object(content: bytes) -> JsonObject:
    try:
        value: object = json.loads(content or b"{}")
    except ValueError as error:
        raise UnexpectedAnswerError("the server's answer is no JSON") from error
    return json_object(value)


def _seconds(answer: JsonObject, name: str) -> float:
    value = answer.get(name)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else 0.0
