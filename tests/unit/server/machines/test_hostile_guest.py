"""A guest that breaks the protocol is cut off; it never reaches further than its own connection."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager

import pytest

from opencomputer.inside.guest import protocol
from opencomputer.inside.guest.protocol import Frame, FrameDecoder, JsonObject
from opencomputer.server.contracts.machine import ExitStatus, Output
from opencomputer.server.domain.byte_ranges import ByteRange
from opencomputer.server.domain.errors import GuestFault, NotFound, NotReady
from opencomputer.server.machines.attachment import OUTPUT_WINDOW, LinkAttachment
from opencomputer.server.machines.dozing import Dozing
from opencomputer.server.machines.files import LinkFiles
from opencomputer.server.machines.link import Link
from tests.support.real_clock import RealClock

pytestmark = pytest.mark.anyio

SESSION: JsonObject = {
    "id": "00000001",
    "kind": "run",
    "argv": ["x"],
    "started_at": 1.0,
    "attached": 0,
    "exit": None,
    "labels": {},
}
EXITED: JsonObject = {"code": 0, "signal": None, "reason": None, "error": None}
ATTACHED: JsonObject = {"session": SESSION, "start": 0, "end": 0, "input_received": 0}

END: tuple[int, Mapping[str, object]] = (protocol.END, {})
Payload = bytes | Mapping[str, object]
LinkFilesFactory = Callable[[Link], LinkFiles]
Behaviour = Callable[["Peer", Frame], Awaitable[None]]


class AlwaysAwake:
    async def freeze(self) -> None:
        raise AssertionError("nothing here is frozen")

    async def thaw(self) -> None:
        return


@pytest.fixture
async def awake() -> AsyncGenerator[LinkFilesFactory]:
    async def busy() -> bool:
        return True

    dozing = Dozing(AlwaysAwake(), RealClock(), busy)
    yield lambda link: LinkFiles(link, dozing)
    await dozing.close()


class Peer:
    """The far end of one connection, as the hostile guest sees it."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer

    async def send(self, type: int, stream: int, payload: bytes = b"") -> None:
        self._writer.write(protocol.HEADER.pack(len(payload), type, stream) + payload)
        await self._writer.drain()

    async def send_json(self, type: int, stream: int, value: JsonObject) -> None:
        await self.send(type, stream, protocol.encode_json(value))

    async def send_raw(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()


@asynccontextmanager
async def hostile_guest(behaviour: Behaviour) -> AsyncGenerator[Link]:
    """A link to a guest that greets well and then does as `behaviour` says with each request."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        decoder = FrameDecoder()
        peer = Peer(writer)
        try:
            while data := await reader.read(65536):
                for frame in decoder.feed(data):
                    if frame.type == protocol.HELLO:
                        await peer.send_json(protocol.HELLO, 0, {"version": protocol.VERSION})
                    else:
                        await behaviour(peer, frame)
        except OSError:
            pass
        finally:
            writer.transport.abort()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    link = Link(server.sockets[0].getsockname()[:2], "token")
    try:
        yield link
    finally:
        await link.close(NotReady())
        server.close()
        await server.wait_closed()


def answer(*steps: tuple[int, Payload]) -> Behaviour:
    """Answer each request by these frames on its stream."""

    async def behaviour(peer: Peer, frame: Frame) -> None:
        if frame.type == protocol.REQUEST:
            for type, payload in steps:
                data = payload if isinstance(payload, bytes) else protocol.encode_json(dict(payload))
                await peer.send(type, frame.stream, data)

    return behaviour


BROKEN = [
    answer((99, b"")),
    answer((protocol.DATA, b"unasked")),
    answer((protocol.RESPONSE, b"not json")),
    answer((protocol.RESPONSE, b"[]")),
    answer((protocol.HELLO, {"version": 1})),
    answer((protocol.CREDIT, bytes(8))),
    answer(END),
]


@pytest.mark.parametrize("behaviour", BROKEN)
async def test_a_violation_never_gives_an_answer(behaviour: Behaviour) -> None:
    async with hostile_guest(behaviour) as link:
        with pytest.raises(GuestFault):
            await link.call("ping", {}, seconds=0.2)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"result": []},
        {"result": "x"},
        {"error": "x"},
        {"error": {"code": 1}},
        {"error": {"code": "unheard of", "message": "x"}},
    ],
)
async def test_a_strange_answer_is_a_guest_fault(fields: JsonObject) -> None:
    async with hostile_guest(answer((protocol.RESPONSE, fields))) as link:
        with pytest.raises(GuestFault):
            await link.call("ping", {}, seconds=2)


async def test_the_text_of_an_error_is_cut_and_printable() -> None:
    message = "\x1b[31m" + "x" * 10_000
    fields: JsonObject = {"error": {"code": "failed", "message": message}}
    async with hostile_guest(answer((protocol.RESPONSE, fields))) as link:
        with pytest.raises(GuestFault) as caught:
            await link.call("ping", {})
    assert len(caught.value.message) <= 500
    assert "\x1b" not in caught.value.message


async def test_silence_is_not_waited_for_longer_than_the_deadline() -> None:
    async with hostile_guest(answer()) as link:
        with pytest.raises(GuestFault):
            await link.call("ping", {}, seconds=0.05)


async def test_a_huge_length_is_refused_at_once() -> None:
    async def behaviour(peer: Peer, _frame: Frame) -> None:
        await peer.send_raw(protocol.HEADER.pack(2**32 - 1, protocol.RESPONSE, 1) + bytes(100_000))

    async with hostile_guest(behaviour) as link:
        with pytest.raises(GuestFault):
            await link.call("ping", {}, seconds=0.2)


async def consume(link: Link) -> int:
    attachment = LinkAttachment("00000001", offset=0, counted=False)
    await link.attach(attachment, seconds=2)
    total = 0
    try:
        async for _item in attachment:
            total += 1
    finally:
        link.release(attachment)
        attachment.let_go()
    return total


@pytest.mark.parametrize(
    "fields",
    [
        {**ATTACHED, "session": None},
        {**ATTACHED, "session": {**SESSION, "kind": "spaceship"}},
        {**ATTACHED, "start": -1},
        {**ATTACHED, "input_received": 5},
    ],
)
async def test_a_strange_attachment_is_not_made(fields: JsonObject) -> None:
    async with hostile_guest(answer((protocol.RESPONSE, {"result": fields}))) as link:
        attachment = LinkAttachment("00000001", offset=0, counted=False)
        with pytest.raises(GuestFault):
            await link.attach(attachment, seconds=0.2)


async def test_output_beyond_the_window_is_not_taken() -> None:
    """Nobody reads while the guest floods: that must end at the window and not in our memory."""
    flooded = asyncio.Event()

    async def behaviour(peer: Peer, frame: Frame) -> None:
        if frame.type != protocol.REQUEST:
            return
        await peer.send_json(protocol.RESPONSE, frame.stream, {"result": ATTACHED})
        if flooded.is_set():  # this is the connection after the first was cut
            await peer.send_json(protocol.END, frame.stream, {"exit": EXITED})
            return
        flooded.set()
        for number in range(OUTPUT_WINDOW // 65536 + 100):
            prefix = protocol.OUTPUT_PREFIX.pack(1, number * 65536)
            await peer.send(protocol.OUTPUT, frame.stream, prefix + bytes(65536))

    async with hostile_guest(behaviour) as link:
        attachment = LinkAttachment("00000001", offset=0, counted=False)
        await link.attach(attachment, seconds=2)
        await asyncio.wait_for(flooded.wait(), 60)
        await asyncio.wait_for(link.call("ping", {}), 60)
        *outputs, exit = [item async for item in attachment]
        link.release(attachment)
    assert exit == ExitStatus(0)
    assert sum(len(item.data) for item in outputs if isinstance(item, Output)) <= OUTPUT_WINDOW


async def test_output_must_go_forward() -> None:
    frames = [(protocol.OUTPUT, protocol.OUTPUT_PREFIX.pack(1, offset) + b"xxxx") for offset in (0, 4, 2)]
    connections = 0

    async def behaviour(peer: Peer, frame: Frame) -> None:
        nonlocal connections
        if frame.type == protocol.REQUEST:
            connections += 1
            if connections > 1:
                await peer.send_json(
                    protocol.RESPONSE, frame.stream, {"error": {"code": "not_found", "message": "gone"}}
                )
                return
            await peer.send_json(protocol.RESPONSE, frame.stream, {"result": ATTACHED})
            for type, payload in frames:
                await peer.send(type, frame.stream, payload)

    async with hostile_guest(behaviour) as link:
        with pytest.raises(NotFound):
            await consume(link)
    assert connections == 2


@pytest.mark.parametrize(
    "steps",
    [
        ((protocol.RESPONSE, {"result": {"size": 3}}), (protocol.DATA, b"four"), END),
        ((protocol.RESPONSE, {"result": {"size": 5}}), (protocol.DATA, b"four"), END),
        ((protocol.RESPONSE, {"result": {"size": "x"}}),),
        ((protocol.RESPONSE, {"result": {"size": 1}}), (protocol.DATA, b"")),
    ],
)
async def test_a_file_is_exactly_as_long_as_it_was_said_to_be(
    steps: tuple[tuple[int, Payload], ...], awake: LinkFilesFactory
) -> None:
    async with hostile_guest(answer(*steps)) as link:
        files = awake(link)
        with pytest.raises(GuestFault):  # noqa: PT012 - the reading is the thing under test
            async with files.read("x") as content:
                async for _chunk in content.chunks:
                    pass


async def test_a_guest_of_an_earlier_version_gives_parts_too(awake: LinkFilesFactory) -> None:
    """It knows nothing of them and sends all; what was not asked for is left out here."""
    whole = [(protocol.DATA, piece) for piece in (b"0123", b"4567", b"89")]
    steps = ((protocol.RESPONSE, {"result": {"size": 10}}), *whole, END)
    for part, expected in (
        (ByteRange(3, 6), b"3456"),
        (ByteRange(4, None), b"456789"),
        (ByteRange(0, 0), b"0"),
    ):
        async with hostile_guest(answer(*steps)) as link, awake(link).read("x", part) as content:
            assert b"".join([chunk async for chunk in content.chunks]) == expected


@pytest.mark.parametrize(
    "steps",
    [
        ((protocol.RESPONSE, {"result": {"size": 10, "start": 5}}), (protocol.DATA, b"56789"), END),
        ((protocol.RESPONSE, {"result": {"size": 10, "start": -1}}),),
        ((protocol.RESPONSE, {"result": {"size": 10, "start": 4}}), (protocol.DATA, b"45"), END),
    ],
)
async def test_a_guest_that_gives_another_part_than_it_says_is_at_fault(
    steps: tuple[tuple[int, Payload], ...], awake: LinkFilesFactory
) -> None:
    async with hostile_guest(answer(*steps)) as link:
        files = awake(link)
        with pytest.raises(GuestFault):  # noqa: PT012 - the reading is the thing under test
            async with files.read("x", ByteRange(4, 7)) as content:
                async for _chunk in content.chunks:
                    pass


async def test_a_file_is_over_with_its_last_byte(awake: LinkFilesFactory) -> None:
    """Whoever has got all that was announced goes on at once, and may end the machine before it says more."""
    steps = ((protocol.RESPONSE, {"result": {"size": 8}}), (protocol.DATA, b"four"), (protocol.DATA, b"more"))
    async with hostile_guest(answer(*steps)) as link, asyncio.timeout(60), awake(link).read("x") as content:
        assert [chunk async for chunk in content.chunks] == [b"four", b"more"]


@pytest.mark.parametrize(
    "listing",
    [b"nonsense\n", b"[]\n", b'{"n":"a/b","d":false,"s":1}\n', b'{"n":"a","d":1,"s":1}\n', b'{"n":""}\n'],
)
async def test_a_strange_listing_is_a_guest_fault(listing: bytes, awake: LinkFilesFactory) -> None:
    steps = ((protocol.RESPONSE, {"result": {"path": "/"}}), (protocol.DATA, listing), END)
    async with hostile_guest(answer(*steps)) as link:
        with pytest.raises(GuestFault):
            await awake(link).list("/")
