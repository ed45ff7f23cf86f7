"""Connections that the host opens to programs of this machine, over its own loopback interface only."""

from __future__ import annotations

import errno
import os
import socket
from collections import deque

from . import protocol
from .connection import Connection, Stream
from .loop import READ, WRITE, Loop
from .requests import Refusal, Request, error_fields

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

MOST_CONNECTIONS = 1024
_SECONDS = 10.0
"""How long a program may take to be connected to: one that has too many waiting does not answer."""
_PIECE = 64 * 1024
_LEAST_WINDOW = 64 * 1024
_MOST_WINDOW = 8 * 1024 * 1024
_LOOPBACK = ((socket.AF_INET6, "::1"), (socket.AF_INET, "127.0.0.1"))
"""Tried from the end."""


class Dialler:
    """Answers `dial`: a stream to the port of this machine that the host names, and to nowhere else."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._relays: set[Relay] = set()

    def dial(self, request: Request) -> None:
        port = protocol.integer(request.fields, "port", least=1, most=65535)
        window = protocol.integer(request.fields, "window", least=_LEAST_WINDOW, most=_MOST_WINDOW)
        if port == protocol.PORT:
            raise Refusal(protocol.REFUSED, "this port is the machine's own")
        if len(self._relays) >= MOST_CONNECTIONS:
            raise Refusal(protocol.BUSY, f"at most {MOST_CONNECTIONS} connections at a time")
        relay = Relay(self._loop, request, window, self._relays.discard)
        self._relays.add(relay)
        relay.dial(port)


class Relay(Stream):
    """One connection to a program, either side of which may end before the other.

    DATA without bytes tells the host that the program has sent everything. The stream itself ends when both
    sides have, when the host cancels it, or when the connection breaks.
    """

    def __init__(self, loop: Loop, request: Request, window: int, on_gone: Callable[[Relay], None]) -> None:
        self._loop = loop
        self._request = request
        self._window = window
        self._on_gone = on_gone
        self._port = 0
        self._connection: Connection | None = request.connection
        self._stream = request.stream
        self._socket: socket.socket | None = None
        self._untried = list(_LOOPBACK)
        self._timer = loop.call_later(_SECONDS, self._refuse)
        self._connected = False
        self._events = 0
        self._pieces: deque[memoryview] = deque()
        self._host_ended = False
        self._program_ended = False
        self._deaf = False
        self._waits_for_room = False
        self._sent = 0
        self._taken = 0
        self._written = 0
        request.connection.streams[request.stream] = self

    def dial(self, port: int) -> None:
        self._port = port
        self._dial_next()

    def _dial_next(self) -> None:
        while self._untried:
            family, address = self._untried.pop()
            try:
                sock = self._socket = socket.socket(family, socket.SOCK_STREAM)
                sock.setblocking(False)
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                code = sock.connect_ex((address, self._port))
            except OSError as error:
                code = error.errno or errno.EIO
            if code == errno.EINPROGRESS:
                self._watch_for(WRITE)
                return
            if code == 0:
                self._have_connected()
                return
            self._close_socket()
        self._refuse()

    def _have_connected(self) -> None:
        assert self._socket is not None
        try:
            # The kernel may pick the very port that is dialled, and connect the socket to itself.
            itself = self._socket.getsockname() == self._socket.getpeername()
        except OSError:
            itself = True
        if itself:
            self._refuse()
            return
        self._timer.cancel()
        self._connected = True
        self._request.reply({})
        self._write()

    def _refuse(self) -> None:
        connection = self._forget()
        if connection is not None:
            connection.drop(self._stream)
            self._request.refuse(protocol.REFUSED, "nothing listens on this port")

    # Frames of the host

    def on_data(self, payload: bytes) -> None:
        if payload:
            self._pieces.append(memoryview(payload))
            self._write()

    def on_credit(self, total: int) -> None:
        self._taken = max(self._taken, min(total, self._sent))
        self._watch()

    def on_end(self) -> None:
        self._host_ended = True
        self._write()

    def on_cancel(self) -> None:
        self._forget()

    def on_lost(self) -> None:
        self._forget()

    def on_room(self) -> None:
        self._waits_for_room = False
        self._read()

    # The program's end

    def _ready(self, events: int) -> None:
        assert self._socket is not None
        if not self._connected:
            if self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0:
                self._have_connected()
            else:
                self._close_socket()
                self._dial_next()
            return
        if events & WRITE:
            self._write()
        if events & ~WRITE:
            self._read()

    def _read(self) -> None:
        connection, sock = self._connection, self._socket
        if connection is None or sock is None or not self._may_read():
            return
        if not connection.has_room:
            self._waits_for_room = True
            connection.request_room(self)
            self._watch()
            return
        try:
            data = sock.recv(min(_PIECE, self._window - (self._sent - self._taken)))
        except (BlockingIOError, InterruptedError):
            self._watch()
            return
        except OSError as error:
            self._break(error)
            return
        connection.send(protocol.DATA, self._stream, data)
        self._sent += len(data)
        self._program_ended = not data
        self._watch()
        self._finish_if_over()

    def _write(self) -> None:
        sock = self._socket
        if not self._connected or sock is None or self._connection is None:
            return
        before = self._written
        try:
            self._write_pieces(sock)
        except (BlockingIOError, InterruptedError):
            pass
        except OSError as error:
            # What the program said before may still be here to be read: an answer that came early.
            self._deaf = True
            self._written += sum(len(piece) for piece in self._pieces)
            self._pieces.clear()
            if self._program_ended:
                self._break(error)
                return
        if self._written != before:
            self._connection.send(protocol.CREDIT, self._stream, protocol.COUNT.pack(self._written))
        self._watch()
        self._finish_if_over()

    def _write_pieces(self, sock: socket.socket) -> None:
        while self._pieces:
            piece = self._pieces[0]
            count = len(piece) if self._deaf else sock.send(piece)
            self._written += count
            if count == len(piece):
                self._pieces.popleft()
            else:
                self._pieces[0] = piece[count:]
        if self._host_ended and not self._deaf:
            self._deaf = True
            sock.shutdown(socket.SHUT_WR)

    def _may_read(self) -> bool:
        return not self._program_ended and self._sent - self._taken < self._window

    def _watch(self) -> None:
        """Be told of exactly what can be done next."""
        reading = READ if self._may_read() and not self._waits_for_room else 0
        self._watch_for(reading | (WRITE if self._pieces else 0))

    def _watch_for(self, events: int) -> None:
        if self._socket is None or events == self._events:
            return
        if events:
            self._loop.watch(self._socket.fileno(), events, self._ready)
        else:
            self._loop.unwatch(self._socket.fileno())
        self._events = events

    # Ends

    def _finish_if_over(self) -> None:
        if self._program_ended and self._host_ended and not self._pieces:
            connection = self._forget()
            if connection is not None:
                connection.finish(self._stream, {})

    def _break(self, error: OSError) -> None:
        connection = self._forget()
        if connection is not None:
            message = os.strerror(error.errno) if error.errno else "the connection broke"
            connection.finish(self._stream, error_fields(protocol.BROKEN, message))

    def _forget(self) -> Connection | None:
        """Let go of everything. The connection to the host, unless it was let go of before."""
        connection, self._connection = self._connection, None
        self._timer.cancel()
        self._pieces.clear()
        self._close_socket()
        self._on_gone(self)
        return connection

    def _close_socket(self) -> None:
        sock, self._socket = self._socket, None
        if sock is not None:
            if self._events:
                self._loop.unwatch(sock.fileno())
                self._events = 0
            sock.close()
