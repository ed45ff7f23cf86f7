"""Who is let in by a guest, and what ends a conversation. The guest itself must outlive all of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from opencomputer.inside.guest import protocol
from opencomputer.inside.guest.protocol import Frame, FrameDecoder, JsonObject, encode
from tests.support.host_guest import TOKEN, HostGuest, host_guest

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def running(tmp_path: Path) -> AsyncGenerator[HostGuest]:
    async with host_guest(tmp_path) as guest:
        yield guest


class Talk:
    """A conversation with a guest, frame by frame."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._decoder = FrameDecoder()
        self._frames: list[Frame] = []

    async def send(self, type: int, stream: int, fields: JsonObject | None = None) -> None:
        payload = b"" if fields is None else protocol.encode_json(fields)
        await self.send_raw(encode(Frame(type, stream, payload)))

    async def send_raw(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def receive(self) -> Frame:
        async with asyncio.timeout(60):
            while not self._frames:
                data = await self._reader.read(65536)
                assert data, "the guest has hung up"
                self._frames += self._decoder.feed(data)
        return self._frames.pop(0)

    async def is_ended(self) -> bool:
        """Whether the guest hangs up, whatever it still had to say."""
        async with asyncio.timeout(60):
            try:
                while await self._reader.read(65536):
                    pass
            except ConnectionResetError:
                pass
        return True

    async def greet(self, token: str = TOKEN, version: int = protocol.VERSION) -> None:
        await self.send(protocol.HELLO, 0, {"version": version, "token": token, "attachments": []})

    async def ask(self, stream: int, operation: str, **fields: object) -> JsonObject:
        await self.send(protocol.REQUEST, stream, {"op": operation, **fields})
        frame = await self.receive()
        assert (frame.type, frame.stream) == (protocol.RESPONSE, stream)
        return protocol.decode_json(frame.payload)


@asynccontextmanager
async def talk_to(running: HostGuest) -> AsyncGenerator[Talk]:
    reader, writer = await asyncio.open_connection(*running.guest_address)
    try:
        yield Talk(reader, writer)
    finally:
        writer.transport.abort()


@asynccontextmanager
async def greeted(running: HostGuest) -> AsyncGenerator[Talk]:
    async with talk_to(running) as talk:
        await talk.greet()
        assert (await talk.receive()).type == protocol.HELLO
        yield talk


async def test_the_right_token_opens_the_door(running: HostGuest) -> None:
    async with greeted(running) as talk:
        assert await talk.ask(1, "ping") == {"result": {}}


STRANGERS = [
    encode(Frame(protocol.HELLO, 0, protocol.encode_json({"version": 1, "token": "x", "attachments": []}))),
    encode(Frame(protocol.HELLO, 0, protocol.encode_json({"version": 9, "token": TOKEN, "attachments": []}))),
    encode(Frame(protocol.HELLO, 0, protocol.encode_json({"version": 1, "token": TOKEN}))),
    encode(Frame(protocol.HELLO, 0, protocol.encode_json({"version": 1, "token": 5, "attachments": []}))),
    encode(Frame(protocol.HELLO, 0, b"nonsense")),
    encode(Frame(protocol.REQUEST, 1, protocol.encode_json({"op": "ping"}))),
    protocol.HEADER.pack(2**31, protocol.HELLO, 0),
    b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    bytes(1000),
]


@pytest.mark.parametrize("greeting", STRANGERS)
async def test_strangers_are_shown_out(running: HostGuest, greeting: bytes) -> None:
    async with talk_to(running) as talk:
        await talk.send_raw(greeting)
        assert await talk.is_ended()
    async with greeted(running) as talk:
        assert await talk.ask(1, "ping") == {"result": {}}


async def test_silent_strangers_do_not_keep_the_host_out(running: HostGuest) -> None:
    connections = [await asyncio.open_connection(*running.guest_address) for _ in range(60)]
    async with greeted(running) as talk:
        assert await talk.ask(1, "ping") == {"result": {}}
    for _, writer in connections:
        writer.transport.abort()


async def test_a_newer_host_replaces_the_older(running: HostGuest) -> None:
    async with greeted(running) as old, greeted(running) as new:
        assert await old.is_ended()
        assert await new.ask(1, "ping") == {"result": {}}


async def test_frames_for_a_stream_that_has_ended_are_passed_over(running: HostGuest) -> None:
    """The host cannot know yet that it has ended."""
    async with greeted(running) as talk:
        await talk.send_raw(encode(Frame(protocol.DATA, 7, b"x")) + encode(Frame(protocol.END, 7)))
        assert await talk.ask(8, "ping") == {"result": {}}


VIOLATIONS = [
    protocol.HEADER.pack(0, 99, 1),
    protocol.HEADER.pack(2**26, protocol.REQUEST, 1),
    encode(Frame(protocol.HELLO, 0, b"{}")),
    encode(Frame(protocol.REQUEST, 1, b"[]")),
    encode(Frame(protocol.REQUEST, 1, b"[" * 100_000)),
    encode(Frame(protocol.RESPONSE, 7, b"{}")),
]


@pytest.mark.parametrize("violation", VIOLATIONS)
async def test_a_violation_ends_the_conversation_only(running: HostGuest, violation: bytes) -> None:
    async with greeted(running) as talk:
        await talk.send_raw(violation)
        assert await talk.is_ended()
    async with greeted(running) as talk:
        assert await talk.ask(1, "ping") == {"result": {}}


@pytest.mark.parametrize(
    ("operation", "fields"),
    [
        ("no-such-operation", {}),
        ("spawn", {}),
        ("spawn", {"id": 5}),
        ("signal", {"id": "x", "signal": 900, "request": "r"}),
        ("identify", {"hostname": "x", "machine_id": "x", "token": "", "entropy": "zz", "now": 0}),
        ("read_file", {"path": "/etc/passwd"}),
        ("read_file", {"path": "/etc/passwd", "window": 1}),
        ("write_file", {"path": "x", "size_hint": -1}),
    ],
)
async def test_a_bad_request_is_refused_and_nothing_else(
    running: HostGuest, operation: str, fields: dict[str, object]
) -> None:
    async with greeted(running) as talk:
        answer = await talk.ask(1, operation, **fields)
        error = protocol.as_object(answer["error"])
        assert error["code"] == protocol.INVALID
        assert await talk.ask(2, "ping") == {"result": {}}


async def test_a_stream_number_is_not_used_twice(running: HostGuest, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(bytes(10_000_000))
    async with greeted(running) as talk:
        for _ in range(2):
            fields: JsonObject = {"op": "read_file", "path": "file", "window": 1 << 20}
            await talk.send(protocol.REQUEST, 1, fields)
        assert await talk.is_ended()


async def test_a_cancelled_stream_is_confirmed(running: HostGuest, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(bytes(10_000_000))
    async with greeted(running) as talk:
        assert "result" in await talk.ask(1, "read_file", path="file", window=1 << 20)
        await talk.send(protocol.CANCEL, 1)
        await talk.send(protocol.CANCEL, 1)
        types = [protocol.DATA]
        while types[-1] == protocol.DATA:
            types.append((await talk.receive()).type)
        assert types[-1] == protocol.END
        assert await talk.ask(2, "ping") == {"result": {}}


async def test_a_reader_that_acknowledges_nothing_gets_one_window(running: HostGuest, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(bytes(10_000_000))
    async with greeted(running) as talk:
        await talk.ask(1, "read_file", path="file", window=1 << 20)
        received = 0
        while received < 1 << 20:
            received += len((await talk.receive()).payload)
        assert await talk.ask(2, "ping") == {"result": {}}  # the answer comes next, and no more data
        assert received == 1 << 20
