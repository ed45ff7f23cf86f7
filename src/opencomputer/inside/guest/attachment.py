"""One reader and writer of one session. Outlives its connection until the host lets go of it."""

from __future__ import annotations

from collections import deque

from . import protocol
from .connection import Connection, Stream

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .session import Session

_PIECE = 64 * 1024
_PIECES_PER_TURN = 4


class Attachment(Stream):
    """Follows a session's output at its reader's own pace.

    `cursor` is the offset of the next byte to send, `read` the one its reader has come to. `unread` are the
    pieces sent and not yet acknowledged, as (end offset, weight); their weights together stay within the
    window.
    """

    def __init__(self, session: Session, id: str, *, counted: bool, window: int) -> None:
        self.session = session
        self.id = id
        self.counted = counted
        self.cursor = 0
        self.read = 0
        self.input_received = 0
        self._input_consumed = 0
        self._window = window
        self._unread: deque[tuple[int, int]] = deque()
        self._unread_weight = 0
        self._connection: Connection | None = None
        self._stream = 0

    def bind(self, connection: Connection, stream: int, cursor: int, unread_weight: int) -> None:
        """Go on over this connection from `cursor`.

        What was in flight before counts as lost; `unread_weight` is what the host has and nobody took yet.
        """
        self._connection = connection
        self._stream = stream
        self.cursor = cursor
        self._unread.clear()
        self._unread_weight = unread_weight
        if unread_weight:
            self._unread.append((cursor, unread_weight))
        connection.streams[stream] = self

    def wake(self) -> None:
        """There may be something to send."""
        if self._connection is not None:
            self._connection.request_room(self)

    def release(self, reason: str) -> None:
        """End the stream without an exit."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.finish(self._stream, {"reason": reason})

    def on_room(self) -> None:
        connection = self._connection
        if connection is None:
            return
        log = self.session.scrollback
        for _ in range(_PIECES_PER_TURN):
            if self._unread_weight + _PIECE + protocol.PIECE_WEIGHT > self._window:
                return
            piece = log.read(self.cursor, _PIECE)
            if piece is None:
                self._finish_after_exit()
                return
            channel, offset, data = piece
            connection.send(
                protocol.OUTPUT, self._stream, data, prefix=protocol.OUTPUT_PREFIX.pack(channel, offset)
            )
            self.cursor = offset + len(data)
            weight = len(data) + protocol.PIECE_WEIGHT
            self._unread.append((self.cursor, weight))
            self._unread_weight += weight
        connection.request_room(self)

    def on_credit(self, total: int) -> None:
        while self._unread and self._unread[0][0] <= total:
            self._unread_weight -= self._unread.popleft()[1]
        self.read = max(self.read, total)
        self.session.read_up_to(total)
        self.wake()

    def on_data(self, payload: bytes) -> None:
        self.input_received += len(payload)
        self.session.write_input(payload, self._consumed)

    def on_end(self) -> None:
        self.session.end_input()

    def on_cancel(self) -> None:
        self._connection = None
        self.session.detach(self)

    def on_lost(self) -> None:
        self._connection = None

    def _consumed(self, count: int) -> None:
        self._input_consumed += count
        if self._connection is not None:
            self._connection.send(protocol.CREDIT, self._stream, protocol.COUNT.pack(self._input_consumed))

    def _finish_after_exit(self) -> None:
        exit = self.session.exit
        if exit is None:
            return
        connection, self._connection = self._connection, None
        self.session.detach(self)
        if connection is not None:
            connection.finish(self._stream, {"exit": exit.to_json()})
