"""What is done with a connection: the proxy that programs know of, and the one that they do not notice."""

from __future__ import annotations

import asyncio
import contextlib
import re
import ssl

from opencomputer.server.domain.egress import EgressRules
from opencomputer.server.network.addresses import literal
from opencomputer.server.network.proxy.answers import answer_refusal
from opencomputer.server.network.proxy.connection import Connection
from opencomputer.server.network.proxy.exchange import Conversation
from opencomputer.server.network.proxy.heads import MOST_HEAD_BYTES, Refusal, check_head
from opencomputer.server.network.proxy.hello import (
    NOTHING_KNOWN,
    Beginning,
    Kind,
    recognise,
    split_authority,
    valid_host,
)
from opencomputer.server.network.proxy.routes import HostRoute, ProxyRoute, mismatch
from opencomputer.server.network.proxy.streams import PlainStream, StreamLost, TlsStream, relay

_END = b"\r\n\r\n"
_ESTABLISHED = b"HTTP/1.1 200 Connection established\r\n\r\n"
_WEB_PORTS = frozenset({80, 443})
_IN_CLEAR = 80
_PROTOCOLS = {Kind.TLS: "tls", Kind.HTTP: "http", Kind.UNKNOWN: "tcp"}


async def serve_explicit(connection: Connection) -> None:
    """A program that asks the proxy: CONNECT, or requests for http:// addresses."""
    guest = connection.guest
    try:
        head = await _first_head(connection)
        if not head.startswith(b"CONNECT "):
            connection.rules()
            await Conversation(guest, ProxyRoute(connection)).run()
            return
        host, port = _connect_target(head)
        connection.host, connection.port = host, port
        connection.permit(host)
        upstream = await connection.dial(host, port)
    except Refusal as refusal:
        connection.denied(refusal)
        await answer_refusal(guest, refusal)
        return
    guest.send(_ESTABLISHED)
    connection.allowed = True
    beginning = await _who_speaks_first(connection, upstream)
    if literal(host) is None:
        await _go_on_by_name(connection, host, beginning, upstream)
    else:
        await _go_on_by_address(connection, host, beginning, upstream)


async def serve_transparent(connection: Connection, address: str) -> None:
    """A program that wanted to connect to `address` and was led here."""
    config = connection.parts.config
    connection.rules()
    connection.host = connection.name_of(address)
    if not connection.parts.dialler.permits(address):
        raise Refusal(403, "blocked_address", f"{address} must not be reached.", address)
    on_web = connection.port in _WEB_PORTS
    try:
        async with asyncio.timeout(config.handshake_seconds if on_web else config.moment_seconds):
            beginning, upstream = await _beginning(connection.guest), None
    except TimeoutError:
        if on_web:
            raise StreamLost("nothing was said") from None
        connection.permit(connection.host)
        upstream = await connection.dial(address, connection.port)
        beginning = await _who_speaks_first(connection, upstream)
    await _go_on_by_address(connection, address, beginning, upstream)


async def _go_on_by_name(
    connection: Connection, host: str, beginning: Beginning, upstream: PlainStream
) -> None:
    """The program has named a host to us. What it says to the host must not name another."""
    rules = _note(connection, host, beginning)
    if beginning.kind is Kind.TLS and beginning.host not in (None, host):
        await _refuse_in_tls(connection, beginning, mismatch(beginning.host or "", host))
    elif beginning.kind is Kind.TLS and _has_secrets(connection, rules, host):
        await _intercept(connection, host, upstream)
    elif beginning.kind is Kind.HTTP and rules.allowlist:
        route = HostRoute(connection, host, secure=False, stream=upstream)
        await Conversation(connection.guest, route).run()
    else:
        await _tunnel(connection, upstream)


async def _go_on_by_address(
    connection: Connection, address: str, beginning: Beginning, upstream: PlainStream | None
) -> None:
    """The program has an address. Which host it means, it may say in its first words."""
    try:
        if beginning.host == "" and connection.rules().allowlist:
            raise Refusal(403, "unnamed", "The host is no host name.")
        named = beginning.host or None
        host = named if named and literal(named) is None else connection.name_of(address)
        rules = _note(connection, host, beginning)
        if rules.allowlist and beginning.kind is Kind.UNKNOWN and connection.port in _WEB_PORTS:
            text = f"What is neither HTTP nor TLS cannot go to port {connection.port} under an allowlist."
            raise Refusal(403, "unnamed", text, host)
        if beginning.kind is Kind.TLS and _has_secrets(connection, rules, host):
            await _intercept(connection, host, None)
        elif beginning.kind is Kind.HTTP and rules.allowlist:
            await Conversation(connection.guest, HostRoute(connection, host, secure=False)).run()
        else:
            target = host if rules.allowlist and host == named else address
            if upstream is None or target != address:
                upstream = await connection.dial(target, connection.port)
            await _tunnel(connection, upstream)
    except Refusal as refusal:
        if beginning.kind is Kind.TLS and refusal.status == 403:
            await _refuse_in_tls(connection, beginning, refusal)
        elif beginning.kind is Kind.HTTP:
            connection.denied(refusal)
            await answer_refusal(connection.guest, refusal)
        else:
            raise


def _note(connection: Connection, host: str, beginning: Beginning) -> EgressRules:
    """Keep what the connection has turned out to be. Raises Refusal when that is not permitted."""
    connection.host = host
    connection.protocol = "tls" if beginning.kind is Kind.TLS else "tcp"
    if beginning.kind is Kind.HTTP:
        connection.protocol = "http"
    return connection.permit(host)


def _has_secrets(connection: Connection, rules: EgressRules, host: str) -> bool:
    return connection.port != _IN_CLEAR and bool(rules.secrets_for(host))


async def _tunnel(connection: Connection, upstream: PlainStream) -> None:
    connection.allowed = True
    await relay(connection.guest, upstream)


async def _intercept(connection: Connection, host: str, upstream: PlainStream | None) -> None:
    """Be the host to the program and the program to the host. Both handshakes go on at the same time."""
    connection.intercepted = True
    route = HostRoute(connection, host, secure=True, stream=upstream)
    guest = TlsStream(connection.guest, connection.parts.leaves.context(host))
    async with asyncio.TaskGroup() as group:
        preparing = group.create_task(route.prepare())
        trusted = await _shake_hands(connection, guest)
        if not trusted:
            preparing.cancel()
    if trusted:
        await Conversation(guest, route).run()
        guest.close()
    else:
        connection.allowed = False
        text = f"The program did not accept the proxy's certificate for {host}."
        connection.denied(Refusal(403, "client_tls", text, host))


async def _refuse_in_tls(connection: Connection, beginning: Beginning, refusal: Refusal) -> None:
    """Say no in a way that the program can show: as the host that it wanted to speak to."""
    connection.allowed = False
    connection.denied(refusal)
    name = beginning.host or connection.host or "refused"
    guest = TlsStream(connection.guest, connection.parts.leaves.context(name))
    if await _shake_hands(connection, guest):
        with contextlib.suppress(TimeoutError, StreamLost):
            async with asyncio.timeout(connection.parts.config.handshake_seconds):
                await guest.receive()
        await answer_refusal(guest, refusal)
        guest.close()


async def _shake_hands(connection: Connection, guest: TlsStream) -> bool:
    try:
        async with asyncio.timeout(connection.parts.config.handshake_seconds):
            await guest.shake_hands()
    except (ssl.SSLError, StreamLost, TimeoutError):
        return False
    return True


async def _first_head(connection: Connection) -> bytes:
    """The head of the first request. What is no CONNECT is left to be read again. Raises Refusal."""
    guest, start = connection.guest, b""
    try:
        async with asyncio.timeout(connection.parts.config.handshake_seconds):
            while (end := start.find(_END)) < 0 and len(start) <= MOST_HEAD_BYTES:
                more = await guest.receive()
                if not more:
                    raise StreamLost("closed before a request")
                start += more
    except TimeoutError as error:
        raise Refusal(408, "bad_request", "The request's head did not come in time.") from error
    if not 0 <= end <= MOST_HEAD_BYTES:
        raise Refusal(431, "bad_request", "The request's head is too long.")
    head = start[: end + len(_END)]
    guest.unread(start[len(head) :] if head.startswith(b"CONNECT ") else start)
    return head


def _connect_target(head: bytes) -> tuple[str, int]:
    check_head(head)
    found = re.match(rb"CONNECT ([^ ]+:[0-9]+) HTTP/1\.[01]\r\n", head)
    split = split_authority(found[1].decode("latin-1"), 0) if found is not None else None
    host = None if split is None else literal(split[0]) or valid_host(split[0])
    if split is None or host is None:
        raise Refusal(400, "bad_request", "CONNECT needs a host name and a port, as in example.com:443.")
    return host, split[1]


async def _beginning(guest: PlainStream) -> Beginning:
    """Read until it is known what this is, and put it all back. Waits for as long as it takes."""
    start = b""
    try:
        while True:
            more = await guest.receive()
            start += more
            if not more:
                return NOTHING_KNOWN
            found = recognise(start)
            if found is not None:
                return found
    finally:
        guest.unread(start)


async def _who_speaks_first(connection: Connection, upstream: PlainStream) -> Beginning:
    """What the program begins with; nothing known, when the host has spoken before that was clear."""
    loop = asyncio.get_running_loop()
    ours = loop.create_task(_beginning(connection.guest))
    theirs = loop.create_task(upstream.wait_for_bytes())
    try:
        await asyncio.wait((ours, theirs), return_when=asyncio.FIRST_COMPLETED)
        return ours.result() if ours.done() else NOTHING_KNOWN
    finally:
        for task in (ours, theirs):
            task.cancel()
        await asyncio.gather(ours, theirs, return_exceptions=True)
