"""One TCP connection to a guest: frames out, and frames in to whoever waits for them.

Everything that arrives is hostile: only frames that were asked for are taken, each stream says how much it
takes, and the first violation ends the connection.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, cast

from opencomputer.inside.guest import protocol
from opencomputer.inside.guest.protocol import Frame, FrameDecoder, JsonObject, ProtocolError

_CANCELLED_ALLOWANCE = 16 * 1024 * 1024


class WireLost(Exception):
    """The connection is gone. Whether the request in flight was done is not known."""


class Sink(Protocol):
    """What receives the frames of one stream after its response. Raising ProtocolError ends the wire."""

    def on_data(self, data: bytes) -> None: ...

    def on_output(self, channel: int, offset: int, data: bytes) -> None: ...

    def on_credit(self, total: int) -> None: ...

    def on_end(self, fields: JsonObject) -> None: ...

    def on_lost(self) -> None: ...


class RefusingSink:
    """A stream that takes nothing. Sinks override what they take."""

    def on_data(self, data: bytes) -> None:
        raise ProtocolError("unexpected data")

    def on_output(self, channel: int, offset: int, data: bytes) -> None:
        raise ProtocolError("unexpected output")

    def on_credit(self, total: int) -> None:
        raise ProtocolError("unexpected credit")

    def on_end(self, fields: JsonObject) -> None:
        raise ProtocolError("unexpected end")

    def on_lost(self) -> None:
        return


_Answer = tuple["asyncio.Future[JsonObject]", "Callable[[JsonObject], None] | None"]


@dataclass
class _Cancelled:
    """A stream we have let go, whose last frames are still on their way."""

    expects_end: bool
    allowance: int = _CANCELLED_ALLOWANCE
    """How much may still arrive: more than the largest window."""


class Wire(asyncio.Protocol):
    """Streams are numbered by us; a number is used once."""

    def __init__(self) -> None:
        self._decoder = FrameDecoder()
        self._transport: asyncio.Transport | None = None
        self._greeting: asyncio.Future[JsonObject] = asyncio.get_running_loop().create_future()
        self._answers: dict[int, _Answer] = {}
        self._sinks: dict[int, Sink] = {}
        self._cancelled: dict[int, _Cancelled] = {}
        self._last_stream = 0
        self.lost: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        """Done once the connection is gone; its result is the reason."""
        self.frames_received = 0

    # Called by asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        try:
            for frame in self._decoder.feed(data):
                self.frames_received += 1
                self._take(frame)
        except ProtocolError as error:
            self.close(f"the guest broke the protocol: {error}")

    def connection_lost(self, exc: Exception | None) -> None:
        self.close(str(exc) if exc else "the guest closed the connection")

    # Used by the link

    @property
    def is_open(self) -> bool:
        return not self.lost.done()

    async def greet(self, fields: JsonObject) -> JsonObject:
        """Introduce ourselves. Raises WireLost when the guest does not want us."""
        self._send(protocol.HELLO, 0, protocol.encode_json(fields))
        return await self._greeting

    def request(
        self,
        fields: JsonObject,
        sink: Sink | None = None,
        on_answer: Callable[[JsonObject], None] | None = None,
    ) -> tuple[int, asyncio.Future[JsonObject]]:
        """Send a request; its stream and its coming answer. The future raises WireLost.

        `on_answer` is called with the answer before any later frame is taken.
        """
        if not self.is_open:
            raise WireLost(self.lost.result())
        self._last_stream += 1
        stream = self._last_stream
        answer: asyncio.Future[JsonObject] = asyncio.get_running_loop().create_future()
        self._answers[stream] = (answer, on_answer)
        if sink is not None:
            self._sinks[stream] = sink
        self._send(protocol.REQUEST, stream, protocol.encode_json(fields))
        return stream, answer

    def send_data(self, stream: int, data: bytes | memoryview) -> None:
        self._send(protocol.DATA, stream, data)

    def send_credit(self, stream: int, total: int) -> None:
        self._send(protocol.CREDIT, stream, protocol.COUNT.pack(total))

    def send_end(self, stream: int) -> None:
        self._send(protocol.END, stream)

    def cancel(self, stream: int) -> None:
        """Let go of a stream, whatever state it is in. Idempotent."""
        answer = self._answers.pop(stream, None)
        sink = self._sinks.pop(stream, None)
        if not self.is_open or (answer is None and sink is None):
            return
        self._cancelled[stream] = _Cancelled(expects_end=sink is not None)
        if sink is not None:
            self._send(protocol.CANCEL, stream)

    async def part(self) -> None:
        """End the connection on both sides: returns once the guest has closed its end too."""
        if self._transport is not None and self.is_open:
            self._transport.write_eof()
            try:
                await asyncio.shield(self.lost)
            finally:
                # Nothing more can be sent, whoever gave up waiting.
                self.close("we have parted")

    def close(self, reason: str) -> None:
        if self.lost.done():
            return
        self.lost.set_result(reason)
        if self._transport is not None:
            self._transport.abort()
        answers, self._answers = self._answers, {}
        for answer in [self._greeting, *(answer for answer, _ in answers.values())]:
            if not answer.done():
                answer.set_exception(WireLost(reason))
                answer.exception()  # nobody may be waiting any more
        sinks, self._sinks = self._sinks, {}
        for sink in sinks.values():
            sink.on_lost()

    # Frames in and out

    def _send(self, type: int, stream: int, payload: bytes | memoryview = b"") -> None:
        if self._transport is None or not self.is_open:
            return
        head = protocol.header(type, stream, len(payload))
        if payload:
            self._transport.writelines([head, payload])
        else:
            self._transport.write(head)

    def _take(self, frame: Frame) -> None:
        if not self.is_open:
            return
        if frame.type == protocol.HELLO:
            if self._greeting.done():
                raise ProtocolError("a second greeting")
            self._greeting.set_result(protocol.decode_json(frame.payload))
        elif frame.stream in self._cancelled:
            self._take_cancelled(frame)
        elif frame.type == protocol.RESPONSE:
            self._take_answer(frame)
        else:
            self._take_stream_frame(frame)

    def _take_answer(self, frame: Frame) -> None:
        if frame.stream not in self._answers:
            raise ProtocolError("an answer to nothing")
        fields = protocol.decode_json(frame.payload)
        answer, on_answer = self._answers.pop(frame.stream)
        if "error" in fields:
            self._sinks.pop(frame.stream, None)
        if on_answer is not None:
            on_answer(fields)
        if not answer.done():
            answer.set_result(fields)

    def _take_stream_frame(self, frame: Frame) -> None:
        sink = self._sinks.get(frame.stream)
        if sink is None or frame.stream in self._answers:
            raise ProtocolError("a frame for no stream")
        if frame.type == protocol.OUTPUT:
            sink.on_output(*protocol.decode_output(frame.payload))
        elif frame.type == protocol.DATA:
            sink.on_data(frame.payload)
        elif frame.type == protocol.CREDIT:
            sink.on_credit(protocol.decode_count(frame.payload))
        elif frame.type == protocol.END:
            del self._sinks[frame.stream]
            sink.on_end(protocol.decode_json(frame.payload))
        else:
            raise ProtocolError(f"a guest cannot send frames of type {frame.type}")

    def _take_cancelled(self, frame: Frame) -> None:
        cancelled = self._cancelled[frame.stream]
        refused = frame.type == protocol.RESPONSE and "error" in protocol.decode_json(frame.payload)
        answered = frame.type == protocol.RESPONSE and not cancelled.expects_end
        if frame.type == protocol.END or refused or answered:
            del self._cancelled[frame.stream]
            return
        cancelled.allowance -= len(frame.payload) + protocol.PIECE_WEIGHT
        if cancelled.allowance < 0:
            raise ProtocolError("a cancelled stream goes on")
