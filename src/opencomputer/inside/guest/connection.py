"""One TCP connection from a host: frames in, frames out, streams in between."""

from __future__ import annotations

import traceback
from collections import deque

from . import protocol
from .loop import READ, WRITE, Loop, log
from .protocol import Frame, FrameDecoder, JsonObject, ProtocolError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

_READ_SIZE = 256 * 1024
_BUFFERS_PER_SEND = 64
_ROUNDS_PER_FLUSH = 16
_HIGH_WATER = 512 * 1024
"""Streams stop adding data while this much waits to be sent."""


class Stream:
    """What answers one request beyond its response. Each method is a frame that came for the stream."""

    def on_data(self, payload: bytes) -> None:
        raise ProtocolError("this stream takes no data")

    def on_credit(self, total: int) -> None:
        raise ProtocolError("this stream takes no credit")

    def on_end(self) -> None:
        raise ProtocolError("this stream takes no end")

    def on_cancel(self) -> None:
        """The host has let go of the stream. Nothing may be sent on it any more."""

    def on_lost(self) -> None:
        """The connection is gone."""

    def on_room(self) -> None:
        """The connection can take some data now; asked for by `request_room`, answered once."""


class Connection:
    """Owns its socket. After `close` nothing is sent and no callback comes."""

    def __init__(
        self,
        loop: Loop,
        sock: socket.socket,
        on_frame: Callable[[Connection, Frame], None],
        on_close: Callable[[Connection], None],
    ) -> None:
        self._loop = loop
        self._socket = sock
        self._on_frame = on_frame
        self._on_close = on_close
        self._decoder = FrameDecoder()
        self._outgoing: deque[bytes | memoryview] = deque()
        self._outgoing_size = 0
        self._events = READ
        self._flush_planned = False
        self._wanting_room: dict[Stream, None] = {}
        self._open = True
        self.authenticated = False
        self.streams: dict[int, Stream] = {}
        sock.setblocking(False)
        loop.watch(sock.fileno(), READ, self._ready)

    @property
    def is_open(self) -> bool:
        return self._open

    @property
    def has_room(self) -> bool:
        """Whether streams may add data now; who finds none asks for it with `request_room`."""
        return self._outgoing_size < _HIGH_WATER

    def send(self, type: int, stream: int, payload: bytes = b"", prefix: bytes = b"") -> None:
        """Queue one frame; what one turn of the loop queues leaves in one system call."""
        if not self._open:
            return
        head = protocol.header(type, stream, len(prefix) + len(payload)) + prefix
        self._outgoing.append(head)
        if payload:
            self._outgoing.append(payload)
        self._outgoing_size += len(head) + len(payload)
        self._plan_flush()

    def send_json(self, type: int, stream: int, value: JsonObject) -> None:
        self.send(type, stream, protocol.encode_json(value))

    def request_room(self, stream: Stream) -> None:
        """Call `stream.on_room` once, soon, when there is room for its data; streams take turns."""
        if self._open and stream not in self._wanting_room:
            self._wanting_room[stream] = None
            self._plan_flush()

    def finish(self, stream: int, value: JsonObject) -> None:
        """End a stream from this side."""
        handler = self.streams.pop(stream, None)
        if handler is not None:
            self._wanting_room.pop(handler, None)
            self.send_json(protocol.END, stream, value)

    def drop(self, stream: int) -> Stream | None:
        """Forget a stream that the host has cancelled."""
        handler = self.streams.pop(stream, None)
        if handler is not None:
            self._wanting_room.pop(handler, None)
        return handler

    def close(self) -> None:
        if not self._open:
            return
        self._open = False
        self._loop.unwatch(self._socket.fileno())
        self._socket.close()
        self._outgoing.clear()
        self._wanting_room.clear()
        streams, self.streams = self.streams, {}
        for stream in streams.values():
            stream.on_lost()
        self._on_close(self)

    def _ready(self, events: int) -> None:
        if events & WRITE:
            self._flush()
        if self._open and events & ~WRITE:
            self._receive()

    def _receive(self) -> None:
        try:
            data = self._socket.recv(_READ_SIZE)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data = b""
        if not data:
            self.close()
            return
        try:
            for frame in self._decoder.feed(data):
                self._on_frame(self, frame)
                if not self._open:
                    return
        except ProtocolError as error:
            log(f"closing a connection: {error}")
            self.close()
        except Exception:
            log(traceback.format_exc())
            self.close()

    def _plan_flush(self) -> None:
        if not self._flush_planned:
            self._flush_planned = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flush_planned = False
        blocked = False
        try:
            for _ in range(_ROUNDS_PER_FLUSH):
                self._fill()
                if not self._outgoing or not self._open:
                    break
                self._sent(self._socket.sendmsg(self._next_buffers()))
        except (BlockingIOError, InterruptedError):
            blocked = True
        except OSError:
            self.close()
        if not self._open:
            return
        if self._outgoing and not blocked:
            self._plan_flush()
        events = READ | WRITE if blocked else READ
        if events != self._events:
            self._events = events
            self._loop.watch(self._socket.fileno(), events, self._ready)

    def _fill(self) -> None:
        while self._wanting_room and self._outgoing_size < _HIGH_WATER:
            stream = next(iter(self._wanting_room))
            del self._wanting_room[stream]
            stream.on_room()

    def _next_buffers(self) -> list[bytes | memoryview]:
        return [self._outgoing[index] for index in range(min(len(self._outgoing), _BUFFERS_PER_SEND))]

    def _sent(self, count: int) -> None:
        self._outgoing_size -= count
        while count:
            first = self._outgoing.popleft()
            if len(first) > count:
                self._outgoing.appendleft(memoryview(first)[count:])
                return
            count -= len(first)
