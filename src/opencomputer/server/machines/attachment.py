"""One reader and writer of one process, which survives lost connections without losing a byte."""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from collections.abc import AsyncIterator
from typing import Literal, cast

from opencomputer.inside.guest import protocol
from opencomputer.inside.guest.protocol import JsonObject, ProtocolError
from opencomputer.server.contracts.machine import ExitStatus, Output, ProcessRecord
from opencomputer.server.domain.errors import OpenComputerError
from opencomputer.server.machines.faults import result_in
from opencomputer.server.machines.records import parse_exit, parse_record
from opencomputer.server.machines.wire import RefusingSink, Wire

OUTPUT_WINDOW = 1024 * 1024
INPUT_WINDOW = 256 * 1024
_INPUT_PIECE = 64 * 1024


class LinkAttachment(RefusingSink):
    """Implements `Attachment`.

    Taking a piece of output acknowledges it; the guest sends at most a window more than was
    acknowledged. Input is kept until the guest says that the process has taken it.
    """

    def __init__(self, process_id: str, *, offset: int | None, counted: bool) -> None:
        self.id = secrets.token_hex(4)
        self._process_id = process_id
        self._counted = counted
        self._precise = offset is None
        self._next_offset = offset
        self._taken_offset = 0
        self._untold = 0
        self._queue: deque[Output] = deque()
        self._weight = 0
        self._changed = asyncio.Event()
        self._ended = False
        self._exit: ExitStatus | None = None
        self._error: OpenComputerError | None = None
        self._record: ProcessRecord | None = None
        self._replay_end = 0
        self._resumed_weight = 0
        self._released = False
        self._wire: Wire | None = None
        self._stream = 0
        self._input = _Input()

    # The contract

    @property
    def process(self) -> ProcessRecord:
        assert self._record is not None, "an attachment is made before it is used"
        return self._record

    @property
    def replay_end(self) -> int:
        return self._replay_end

    def __aiter__(self) -> AsyncIterator[Output | ExitStatus]:
        return self._read()

    async def write(self, data: bytes) -> None:
        async with self._input.turn:
            for start in range(0, len(data), _INPUT_PIECE):
                piece = data[start : start + _INPUT_PIECE]
                await self._input.room_for(len(piece))
                if self._ended or self._input.closed:
                    return
                self._input.add(piece)
                if self._wire is not None:
                    self._wire.send_data(self._stream, piece)

    async def close_input(self) -> None:
        async with self._input.turn:
            self._input.closed = True
            if self._wire is not None:
                self._wire.send_end(self._stream)

    # Used by the link

    async def resume(self, wire: Wire) -> None:
        """Attach over `wire`, where the last connection left off."""
        self._resumed_weight = self._weight
        stream, answer = wire.request(
            {
                "op": "attach",
                "id": self._process_id,
                "attachment": self.id,
                "counted": self._counted,
                "offset": self._next_offset,
                "window": OUTPUT_WINDOW,
                "unread": self._weight,
            },
            self,
            lambda fields: self._bind(wire, stream, fields),
        )
        try:
            result_in(await answer)
        except asyncio.CancelledError:
            wire.cancel(stream)
            raise

    def fail(self, error: OpenComputerError) -> None:
        """End the iteration with `error`, after what has arrived."""
        if not self._ended:
            self._error = error
            self._end()

    def let_go(self) -> None:
        """Tell the guest that this attachment is no more. Idempotent."""
        self._released = True
        if self._wire is not None:
            if self._taken_offset:
                self._wire.send_credit(self._stream, self._taken_offset)
            self._wire.cancel(self._stream)
            self._wire = None
        self._end()

    # Frames from the guest

    def on_output(self, channel: int, offset: int, data: bytes) -> None:
        if self._next_offset is None or offset < self._next_offset:
            raise ProtocolError("output out of order")
        self._weight += len(data) + protocol.PIECE_WEIGHT
        if self._weight > OUTPUT_WINDOW:
            raise ProtocolError("more output than allowed")
        self._next_offset = offset + len(data)
        self._queue.append(Output(cast("Literal[1, 2]", channel), offset, data))
        self._changed.set()

    def on_credit(self, total: int) -> None:
        self._input.acknowledge(total)

    def on_end(self, fields: JsonObject) -> None:
        self._wire = None
        if fields.get("exit") is not None:
            self._exit = parse_exit(protocol.as_object(fields["exit"]))
        self._end()

    def on_lost(self) -> None:
        self._wire = None

    def _bind(self, wire: Wire, stream: int, fields: JsonObject) -> None:
        """The answer to an attach, taken before any frame that follows it."""
        if "error" in fields:
            return
        result = protocol.as_object(fields.get("result"))
        record = parse_record(protocol.as_object(result.get("session")))
        if self._record is None:
            self._replay_end = protocol.integer(result, "end")
            self._next_offset = protocol.integer(result, "start")
            self._record = record
        self._input.acknowledge(protocol.integer(result, "input_received"))
        if self._released:
            wire.cancel(stream)
            return
        self._wire, self._stream = wire, stream
        for piece in self._input.unacknowledged():
            wire.send_data(stream, piece)
        if self._input.closed:
            wire.send_end(stream)

    def _end(self) -> None:
        self._ended = True
        self._changed.set()
        self._input.give_up()

    async def _read(self) -> AsyncIterator[Output | ExitStatus]:
        while True:
            while self._queue:
                piece = self._queue.popleft()
                self._acknowledge(piece)
                yield piece
            if self._ended:
                break
            self._changed.clear()
            await self._changed.wait()
        if self._error is not None:
            raise self._error
        if self._exit is not None:
            yield self._exit

    def _acknowledge(self, piece: Output) -> None:
        weight = len(piece.data) + protocol.PIECE_WEIGHT
        self._weight -= weight
        self._untold += weight
        self._taken_offset = piece.offset + len(piece.data)
        prompt = (self._precise or self._resumed_weight) and not self._queue
        if (prompt or self._untold > OUTPUT_WINDOW // 4) and self._wire is not None:
            self._untold = 0
            self._resumed_weight = 0 if prompt else self._resumed_weight
            self._wire.send_credit(self._stream, self._taken_offset)


class _Input:
    """What was written and is not yet acknowledged, as (total before it, bytes)."""

    def __init__(self) -> None:
        self.turn = asyncio.Lock()
        self.closed = False
        self._kept: deque[tuple[int, bytes]] = deque()
        self._written = 0
        self._acknowledged = 0
        self._changed = asyncio.Event()
        self._given_up = False

    async def room_for(self, count: int) -> None:
        while self._written + count - self._acknowledged > INPUT_WINDOW and not self._given_up:
            self._changed.clear()
            await self._changed.wait()

    def add(self, piece: bytes) -> None:
        self._kept.append((self._written, piece))
        self._written += len(piece)

    def acknowledge(self, total: int) -> None:
        if total > self._written:
            raise ProtocolError("input acknowledged that was never sent")
        self._acknowledged = max(self._acknowledged, total)
        while self._kept and self._kept[0][0] + len(self._kept[0][1]) <= self._acknowledged:
            self._kept.popleft()
        self._changed.set()

    def unacknowledged(self) -> list[bytes]:
        return [piece[max(0, self._acknowledged - start) :] for start, piece in self._kept]

    def give_up(self) -> None:
        self._given_up = True
        self._kept.clear()
        self._changed.set()
