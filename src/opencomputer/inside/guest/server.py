"""Listens for the host, lets only the host in, and hands its requests to the operations."""

from __future__ import annotations

import os
import socket

from . import protocol
from .connection import Connection
from .loop import READ, Loop, Timer, log
from .protocol import Frame, ProtocolError
from .requests import Request, perform

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

HELLO_SECONDS = 10.0
_MOST_STRANGERS = 16
_STREAM_FRAMES = (protocol.DATA, protocol.CREDIT, protocol.END, protocol.CANCEL)


def equal_secrets(left: str, right: str) -> bool:
    """Compare in a time that does not depend on where the two differ."""
    ours, theirs = left.encode("utf-8", "replace"), right.encode("utf-8", "replace")
    difference = len(ours) ^ len(theirs)
    for index in range(len(theirs)):
        difference |= theirs[index] ^ ours[index % len(ours)] if ours else 1
    return difference == 0


class Server:
    """One host at a time: a newer connection with the right token replaces the older."""

    def __init__(
        self,
        loop: Loop,
        token: str,
        on_hello: Callable[[set[str]], None],
    ) -> None:
        self._loop = loop
        self.token = token
        self.operations: dict[str, Callable[[Request], None]] = {}
        self._on_hello = on_hello
        self._boot_id = os.urandom(8).hex()
        self._strangers: dict[Connection, Timer] = {}
        self._host: Connection | None = None
        self._listener: socket.socket | None = None

    def listen(self, address: str, port: int, *, refuse_own_address: bool) -> int:
        """Begin to listen; the port it got. `refuse_own_address` keeps the machine's own users out."""
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((address, port))
        listener.listen(64)
        listener.setblocking(False)
        self._listener = listener
        self._loop.watch(listener.fileno(), READ, lambda _events: self._accept(refuse_own_address))
        return listener.getsockname()[1]

    def close(self) -> None:
        if self._listener is not None:
            self._loop.unwatch(self._listener.fileno())
            self._listener.close()
        for connection in [*self._strangers, *([self._host] if self._host else [])]:
            connection.close()

    def _accept(self, refuse_own_address: bool) -> None:
        assert self._listener is not None
        try:
            sock, peer = self._listener.accept()
        except OSError:
            return
        try:
            if refuse_own_address and sock.getsockname()[0] == peer[0]:
                sock.close()
                return
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError:
            sock.close()
            return
        if len(self._strangers) >= _MOST_STRANGERS:
            next(iter(self._strangers)).close()
        connection = Connection(self._loop, sock, self._on_frame, self._on_close)
        self._strangers[connection] = self._loop.call_later(HELLO_SECONDS, connection.close)

    def _on_close(self, connection: Connection) -> None:
        timer = self._strangers.pop(connection, None)
        if timer is not None:
            timer.cancel()
        if self._host is connection:
            self._host = None

    def _on_frame(self, connection: Connection, frame: Frame) -> None:
        if not connection.authenticated:
            self._authenticate(connection, frame)
        elif frame.type == protocol.REQUEST:
            if frame.stream in connection.streams:
                raise ProtocolError("a stream number was used twice")
            fields = protocol.decode_json(frame.payload)
            perform(self.operations, Request(connection, frame.stream, fields))
        else:
            self._on_stream_frame(connection, frame)

    def _on_stream_frame(self, connection: Connection, frame: Frame) -> None:
        if frame.type not in _STREAM_FRAMES:
            raise ProtocolError(f"a host cannot send frames of type {frame.type} here")
        if frame.type == protocol.CANCEL:
            cancelled = connection.drop(frame.stream)
            if cancelled is not None:
                cancelled.on_cancel()
                connection.send_json(protocol.END, frame.stream, {})
            return
        stream = connection.streams.get(frame.stream)
        if stream is None:
            return  # it has ended and the host does not know yet
        if frame.type == protocol.DATA:
            stream.on_data(frame.payload)
        elif frame.type == protocol.CREDIT:
            stream.on_credit(protocol.decode_count(frame.payload))
        else:
            stream.on_end()

    def _authenticate(self, connection: Connection, frame: Frame) -> None:
        if frame.type != protocol.HELLO:
            raise ProtocolError("the first frame is not a greeting")
        fields = protocol.decode_json(frame.payload)
        if not equal_secrets(self.token, protocol.text(fields, "token")):
            raise ProtocolError("wrong token")
        if protocol.integer(fields, "version") != protocol.VERSION:
            raise ProtocolError("another version of the protocol")
        attachments = set(protocol.texts(fields, "attachments"))
        self._strangers.pop(connection).cancel()
        connection.authenticated = True
        previous, self._host = self._host, connection
        if previous is not None:
            log("a newer connection of the host replaces the older")
            previous.close()
        connection.send_json(
            protocol.HELLO, 0, {"version": protocol.VERSION, "boot_id": self._boot_id, "pid": os.getpid()}
        )
        self._on_hello(attachments)
