"""Name resolution for machines: passes questions on to the host's own resolvers.

It understands only as much of a message as it must: the two bytes of the identifier and one flag. What may
be asked by machines that may not reach everything is decided in `restricted_names`. Everything from a machine
is hostile input, so sizes, numbers and times are capped, per machine and in all.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from opencomputer.server.contracts.egress import EgressTable
from opencomputer.server.domain.egress import EgressMode
from opencomputer.server.network.restricted_names import RestrictedNames

_HEADER_BYTES = 12
_MAX_QUESTION_BYTES = 4096
_MAX_ANSWER_BYTES = 65535
_SERVER_FAILURE = 2
_RESPONSE_FLAG = 0x80
_TRUNCATED_FLAG = 0x02
_RECURSION_DESIRED_AND_OPCODE = 0x79
_FALLBACK = ("127.0.0.1",)


@dataclass(frozen=True)
class ResolverConfig:
    """`upstreams` empty means: those of /etc/resolv.conf, read again whenever the file changes."""

    upstreams: tuple[tuple[str, int], ...] = ()
    resolv_conf: Path = Path("/etc/resolv.conf")
    per_machine: int = 64
    """Questions of one machine in flight; more are dropped, and the machine asks again."""
    in_all: int = 2048
    connections_per_machine: int = 16
    attempt_seconds: float = 3.0
    idle_seconds: float = 15.0


def parse_nameservers(text: str) -> tuple[str, ...]:
    """The addresses of the `nameserver` lines of a resolv.conf; IPv6 zone suffixes are kept."""
    lines = (line.split() for line in text.splitlines())
    return tuple(words[1] for words in lines if len(words) >= 2 and words[0] == "nameserver")


def failure_answer(question: bytes) -> bytes:
    """The answer "server failure" to a question, so that a program inside gives up at once.

    Only the header is returned: no part of the question needs to be understood for that.
    """
    flags = bytes(
        [_RESPONSE_FLAG | (question[2] & _RECURSION_DESIRED_AND_OPCODE), _RESPONSE_FLAG | _SERVER_FAILURE]
    )
    return question[:2] + flags + bytes(8)


def is_question(message: bytes) -> bool:
    return _HEADER_BYTES <= len(message) <= _MAX_QUESTION_BYTES and not message[2] & _RESPONSE_FLAG


class Treatment(Enum):
    """What becomes of a machine's questions."""

    PASS_ON = "pass on"
    RESTRICT = "restrict"
    FAIL = "fail"


def treatment(table: EgressTable, machine: str, mode: EgressMode) -> Treatment:
    """The stricter of what the packet filter does (`mode`) and what the table says counts.

    They are changed one after the other. A machine nobody has named yet may ask if its packets get out
    anyway: one that waits in the pool, or builds an image.
    """
    rules = table.rules(machine)
    modes = {mode, mode if rules is None else rules.mode}
    if EgressMode.CLOSED in modes or (rules is None and mode is not EgressMode.OPEN):
        return Treatment.FAIL
    return Treatment.RESTRICT if EgressMode.RESTRICTED in modes else Treatment.PASS_ON


@dataclass(frozen=True)
class QuestionPolicy:
    """Decides by the address of the machine that asks."""

    treatment: Callable[[str], Treatment]
    restricted: RestrictedNames


class Resolver:
    """Listens on UDP and TCP. `open` and `close` once each. Without a policy everything is passed on."""

    def __init__(self, config: ResolverConfig, policy: QuestionPolicy | None = None) -> None:
        self._config = config
        self._policy = policy
        self._in_flight: Counter[str] = Counter()
        self._connections: Counter[str] = Counter()
        self._tasks: set[asyncio.Task[None]] = set()
        self._transport: asyncio.DatagramTransport | None = None
        self._server: asyncio.Server | None = None
        self._upstreams = Upstreams(config)

    async def open(self, address: str, port: int) -> int:
        """Start listening; returns the port, which is chosen by the kernel when 0 was asked for."""
        loop = asyncio.get_running_loop()
        self._server = await asyncio.start_server(self._serve_stream, address, port)
        bound = int(self._server.sockets[0].getsockname()[1])
        self._transport, _ = await loop.create_datagram_endpoint(
            lambda: _Questions(self._take_datagram), local_addr=(address, bound)
        )
        return bound

    async def close(self) -> None:
        if self._transport is not None:
            self._transport.close()
        if self._server is not None:
            self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._server is not None:
            await self._server.wait_closed()

    def _take_datagram(self, question: bytes, client: tuple[str, int]) -> None:
        if is_question(question) and self._admit(client[0]):
            self._start(self._answer_datagram(question, client))

    async def _answer_datagram(self, question: bytes, client: tuple[str, int]) -> None:
        try:
            answer = await self._answer(question, client[0], stream=False)
        finally:
            self._in_flight[client[0]] -= 1
        if self._transport is not None and not self._transport.is_closing():
            self._transport.sendto(answer, client)

    def _serve_stream(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        client = str(writer.get_extra_info("peername")[0])
        if self._connections[client] >= self._config.connections_per_machine:
            writer.close()
            return
        self._connections[client] += 1
        self._start(self._talk(client, reader, writer))

    async def _talk(self, client: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with contextlib.suppress(OSError, EOFError, TimeoutError):
                while await self._exchange(client, reader, writer):
                    pass
        finally:
            self._connections[client] -= 1
            writer.close()

    async def _exchange(
        self, client: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        async with asyncio.timeout(self._config.idle_seconds):
            length = int.from_bytes(await reader.readexactly(2), "big")
            if length > _MAX_QUESTION_BYTES:
                return False
            question = await reader.readexactly(length)
        if not is_question(question) or not self._admit(client):
            return False
        try:
            answer = await self._answer(question, client, stream=True)
        finally:
            self._in_flight[client] -= 1
        writer.write(len(answer).to_bytes(2, "big") + answer)
        async with asyncio.timeout(self._config.idle_seconds):
            await writer.drain()
        return True

    async def _answer(self, question: bytes, machine: str, *, stream: bool) -> bytes:
        policy = self._policy
        way = Treatment.PASS_ON if policy is None else policy.treatment(machine)
        if policy is None or way is Treatment.PASS_ON:
            return await self._ask(question, _ask_by_stream if stream else _ask_by_datagram)
        if way is Treatment.FAIL:
            return failure_answer(question)
        answer = await policy.restricted.answer(machine, question, self._ask_either_way, stream=stream)
        return answer or failure_answer(question)

    async def _ask_either_way(self, question: bytes) -> bytes:
        answer = await self._ask(question, _ask_by_datagram)
        return await self._ask(question, _ask_by_stream) if answer[2] & _TRUNCATED_FLAG else answer

    async def _ask(self, question: bytes, ask: Ask) -> bytes:
        for upstream in self._upstreams.current():
            with contextlib.suppress(OSError, EOFError, TimeoutError):
                async with asyncio.timeout(self._config.attempt_seconds):
                    answer = await ask(upstream, question)
                if len(answer) >= _HEADER_BYTES and answer[:2] == question[:2]:
                    return answer
        return failure_answer(question)

    def _admit(self, client: str) -> bool:
        mine = self._in_flight[client]
        if mine >= self._config.per_machine or len(self._tasks) >= self._config.in_all:
            return False
        self._in_flight[client] = mine + 1
        return True

    def _start(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


class Upstreams:
    """The host's resolvers, as the configuration or the system's file says."""

    def __init__(self, config: ResolverConfig) -> None:
        self._config = config
        self._read_at = -1.0
        self._known: tuple[tuple[str, int], ...] = ()

    def current(self) -> tuple[tuple[str, int], ...]:
        if self._config.upstreams:
            return self._config.upstreams
        try:
            changed_at = self._config.resolv_conf.stat().st_mtime
            if changed_at != self._read_at:
                servers = parse_nameservers(self._config.resolv_conf.read_text()) or _FALLBACK
                self._known, self._read_at = tuple((server, 53) for server in servers), changed_at
        except OSError:
            self._known = tuple((server, 53) for server in _FALLBACK)
        return self._known


class _Questions(asyncio.DatagramProtocol):
    def __init__(self, take: Callable[[bytes, tuple[str, int]], None]) -> None:
        self._take = take

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        self._take(data, addr)


async def _ask_by_datagram(upstream: tuple[str, int], question: bytes) -> bytes:
    """One question on a socket of its own: a fresh random port each time, and only its peer may answer."""
    loop = asyncio.get_running_loop()
    family = socket.AF_INET6 if ":" in upstream[0] else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as sock:
        sock.setblocking(False)
        await loop.sock_connect(sock, upstream)
        await loop.sock_sendall(sock, question)
        while True:
            answer = await loop.sock_recv(sock, _MAX_ANSWER_BYTES)
            if answer[:2] == question[:2]:
                return answer


async def _ask_by_stream(upstream: tuple[str, int], question: bytes) -> bytes:
    reader, writer = await asyncio.open_connection(*upstream)
    try:
        writer.write(len(question).to_bytes(2, "big") + question)
        return await reader.readexactly(int.from_bytes(await reader.readexactly(2), "big"))
    finally:
        writer.close()


Ask = Callable[[tuple[str, int], bytes], Awaitable[bytes]]
