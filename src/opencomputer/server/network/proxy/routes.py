"""Where the requests of a connection go: always to one host, or, for the proxy by name, to whichever."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from dataclasses import dataclass

import h11

from opencomputer.server.domain.egress import EgressRules
from opencomputer.server.network.proxy.connection import Connection
from opencomputer.server.network.proxy.exchange import Admitted, Upstream
from opencomputer.server.network.proxy.heads import Refusal, requested_authority
from opencomputer.server.network.proxy.scrubbing import scrubbed_values
from opencomputer.server.network.proxy.streams import PlainStream, StreamLost, TlsStream
from opencomputer.server.network.proxy.tokens import Substitution


@dataclass(frozen=True)
class _Terms:
    """What follows from rules for one host, until the rules change."""

    rules: EgressRules
    substitution: Substitution
    scrubbed: Mapping[bytes, bytes]


class HostRoute:
    """To the host of a connection: inside TLS with its secrets, in the clear without any."""

    def __init__(
        self, connection: Connection, host: str, *, secure: bool, stream: PlainStream | None = None
    ) -> None:
        self._connection = connection
        self._host = host
        self._secure = secure
        self._stream = stream
        self._upstream: Upstream | None = None
        self._fault: Refusal | None = None
        self._terms: _Terms | None = None

    async def prepare(self) -> None:
        """Connect ahead of the first request, which is told when that fails."""
        try:
            self._upstream = await self._connect()
        except Refusal as fault:
            self._fault = fault

    async def admit(self, request: h11.Request) -> Admitted:
        connection = self._connection
        authority = requested_authority(request, connection.port)
        if authority is not None and authority[0] != self._host:
            raise mismatch(authority[0], self._host)
        terms = self._current_terms(connection.permit(self._host))
        fault, self._fault = self._fault, None
        if fault is not None:
            raise fault
        if self._upstream is None or not self._upstream.usable():
            self._upstream = await self._connect()
        connection.allowed = True
        return Admitted(self._upstream, terms.substitution, terms.scrubbed)

    def refused(self, refusal: Refusal) -> None:
        self._connection.denied(refusal)

    def _current_terms(self, rules: EgressRules) -> _Terms:
        if self._terms is None or self._terms.rules is not rules:
            substitution = Substitution(rules, self._host if self._secure else None)
            substitution.used, substitution.withheld = self._connection.used, self._connection.withheld
            scrubbed = scrubbed_values(rules, self._host) if self._secure else {}
            self._terms = _Terms(rules, substitution, scrubbed)
        return self._terms

    async def _connect(self) -> Upstream:
        stream, self._stream = self._stream, None
        if stream is None or stream.over:
            stream = await self._connection.dial(self._host, self._connection.port)
        if not self._secure:
            return Upstream(stream)
        parts = self._connection.parts
        secured = TlsStream(stream, parts.upstream_tls, self._host)
        try:
            async with asyncio.timeout(parts.config.handshake_seconds):
                await secured.shake_hands()
        except (ssl.SSLError, StreamLost, TimeoutError) as error:
            stream.abort()
            text = f"No trustworthy TLS connection to {self._host}: {_in_words(error)}."
            raise Refusal(502, "upstream_tls", text, self._host) from error
        return Upstream(secured)


class ProxyRoute:
    """To whatever host each request names, in the clear and so without secrets."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._route: HostRoute | None = None

    async def admit(self, request: h11.Request) -> Admitted:
        if not request.target.lower().startswith(b"http://"):
            raise Refusal(405, "bad_request", "This is a proxy: it takes CONNECT, and http:// addresses.")
        connection = self._connection
        authority = requested_authority(request, 80)
        if authority is not None and (self._route is None or authority != (connection.host, connection.port)):
            self._route = self._turn_to(*authority)
        if self._route is None:
            raise Refusal(400, "bad_request", "The request names no host.")
        return await self._route.admit(request)

    def refused(self, refusal: Refusal) -> None:
        self._connection.denied(refusal)

    def _turn_to(self, host: str, port: int) -> HostRoute:
        """To the log another host is another connection."""
        connection = self._connection
        if connection.allowed:
            connection.tell("allowed")
        connection.allowed, connection.protocol = False, "http"
        connection.host, connection.port = host, port
        connection.used.clear()
        connection.withheld.clear()
        return HostRoute(connection, host, secure=False)


def mismatch(requested: str, host: str) -> Refusal:
    text = f"This is a connection to {host}, and not to {requested}."
    return Refusal(421, "host_mismatch", text, requested)


def _in_words(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return error.verify_message
    if isinstance(error, TimeoutError):
        return "no answer in time"
    return getattr(error, "reason", None) or str(error) or "the host has hung up"
