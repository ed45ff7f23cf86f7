"""`…/exec/{sid}` and `…/agent/{sid}` as WebSockets (sandbox-wire.md sections 6 and 9.3)."""

from __future__ import annotations

from contextlib import AsyncExitStack

from fastapi import APIRouter
from starlette.websockets import WebSocket

from opencomputer.server.domain.access import Caller
from opencomputer.server.domain.machine import ExitStatus, Output, ProcessKind
from opencomputer.server.domain.turns import TurnEnd, TurnTracker
from opencomputer.server.http.auth import caller_of, live_sandbox, services_of
from opencomputer.server.http.streams import (
    COME_BACK,
    INTERNAL,
    NORMAL,
    CloseSocket,
    refusing_upgrade,
    run_until_one_ends,
    translating_loss,
    until_ended,
)
from opencomputer.server.services.sandboxes.agents import CLAUDE_SESSION_LABEL, DELIVERED_TURN_END_LABEL
from opencomputer.server.services.sandboxes.live import LiveSandbox
from opencomputer.server.services.sandboxes.sessions import SessionAttachment
from opencomputer.wire import frames
from opencomputer.wire.ids import ProcessId

router = APIRouter(prefix="/sandboxes/{sandbox_id}")

_STDIN_END = frames.encode(frames.STDIN_END)


@router.websocket("/exec/{session_id}")
async def attach(websocket: WebSocket, session_id: str) -> None:
    await _serve(websocket, ProcessId(session_id), ProcessKind.SESSION, ProcessKind.AGENT)


@router.websocket("/agent/{session_id}")
async def attach_agent(websocket: WebSocket, session_id: str) -> None:
    await _serve(websocket, ProcessId(session_id), ProcessKind.AGENT)


async def _serve(websocket: WebSocket, process_id: ProcessId, *kinds: ProcessKind) -> None:
    async with refusing_upgrade(websocket), AsyncExitStack() as stack:
        caller = await caller_of(websocket)
        live = await live_sandbox(websocket, caller)
        sessions = services_of(websocket).sessions
        record = await sessions.get(live, process_id, *kinds)
        attachment = await stack.enter_async_context(sessions.attach(live, process_id))
        await websocket.accept()
        is_agent = record.kind is ProcessKind.AGENT
        await _converse(websocket, live, caller, attachment, is_agent=is_agent)


async def _converse(
    websocket: WebSocket, live: LiveSandbox, caller: Caller, attachment: SessionAttachment, *, is_agent: bool
) -> None:
    writer = _AgentWriter(websocket, live, attachment) if is_agent else _Writer(websocket, attachment)
    async with translating_loss(live):
        await run_until_one_ends(
            writer.run(),
            _read(websocket, attachment, is_agent=is_agent),
            until_ended(websocket, live, caller),
        )


async def _read(websocket: WebSocket, attachment: SessionAttachment, *, is_agent: bool) -> None:
    """Input from the client. Anything that is not an input frame is ignored; an agent's input has no end."""
    while True:
        message = await websocket.receive()
        if message["type"] == "websocket.disconnect":
            return
        data = message.get("bytes") or b""
        if len(data) > 1 and data[0] == frames.STDIN:
            await attachment.write(data[1:])
        elif data[:1] == _STDIN_END and not is_agent:
            await attachment.close_input()


class _Writer:
    """Sends one attachment: replay, the end-of-scrollback mark, live output, exit, close."""

    def __init__(self, websocket: WebSocket, attachment: SessionAttachment) -> None:
        self._websocket = websocket
        self._attachment = attachment
        self._replaying = True
        self._expected: int | None = None

    async def run(self) -> None:
        if self._attachment.replay_end == 0:
            await self._end_replay()
        async for event in self._attachment:
            if isinstance(event, Output):
                await self._output(event)
            else:
                await self._exit(event)

    async def _output(self, event: Output) -> None:
        for piece in _split_at(event, self._attachment.replay_end):
            if self._replaying and piece.offset >= self._attachment.replay_end:
                await self._end_replay()
            if not self._replaying and self._expected is not None and piece.offset != self._expected:
                # The scrollback holds what it can; attaching again replays it.
                raise CloseSocket(COME_BACK, "this client reads too slowly; attach again")
            await self._send(piece)
            self._expected = piece.offset + len(piece.data)
            if self._replaying and self._expected >= self._attachment.replay_end:
                await self._end_replay()

    async def _send(self, piece: Output) -> None:
        for message in frames.encode_all(piece.stream, piece.data):
            await self._websocket.send_bytes(message)

    async def _end_replay(self) -> None:
        self._replaying = False
        self._expected = self._attachment.replay_end
        await self._websocket.send_bytes(frames.encode(frames.SCROLLBACK_END))

    async def _exit(self, status: ExitStatus) -> None:
        if self._replaying:
            await self._end_replay()
        if status.code is None:
            raise CloseSocket(INTERNAL, "the exit code is not known")
        await self._send_exit(status.code)
        raise CloseSocket(NORMAL, "exec completed")

    async def _send_exit(self, code: int) -> None:
        await self._websocket.send_bytes(frames.encode_exit(code))


class _AgentWriter(_Writer):
    """Besides, sends an exit frame at the end of each turn, once: live to everybody who is attached, or
    held for the next client."""

    def __init__(self, websocket: WebSocket, live: LiveSandbox, attachment: SessionAttachment) -> None:
        super().__init__(websocket, attachment)
        self._live = live
        self._tracker = TurnTracker()
        self._held: TurnEnd | None = None
        self._id = ProcessId(attachment.process.id)
        delivered = attachment.process.labels.get(DELIVERED_TURN_END_LABEL, "")
        self._note_delivered(int(delivered) if delivered.isdigit() else 0)

    def _note_delivered(self, position: int) -> None:
        self._live.turn_ends[self._id] = max(position, self._live.turn_ends.get(self._id, 0))

    async def _send(self, piece: Output) -> None:
        if piece.stream != frames.STDOUT:
            await super()._send(piece)
            return
        ends = self._tracker.feed(piece.data, piece.offset)
        if self._replaying:
            self._held = ends[-1] if ends else self._held
            await super()._send(piece)
            return
        sent = piece.offset
        for end in ends:
            await super()._send(_part(piece, sent, end.position))
            await self._deliver(end)
            sent = end.position
        await super()._send(_part(piece, sent, piece.offset + len(piece.data)))

    async def _end_replay(self) -> None:
        await super()._end_replay()
        told = self._live.turn_ends[self._id]
        if self._held is None or self._held.position <= told:
            return
        # Taken before it is sent: others may come at the same moment.
        self._note_delivered(self._held.position)
        try:
            await self._deliver(self._held)
        except BaseException:
            self._live.turn_ends[self._id] = told
            raise

    async def _deliver(self, end: TurnEnd) -> None:
        await self._send_exit(end.code)
        self._note_delivered(end.position)
        labels = {DELIVERED_TURN_END_LABEL: str(end.position)}
        if end.claude_session_id is not None:
            labels[CLAUDE_SESSION_LABEL] = end.claude_session_id
        await self._live.machine.processes.label(self._id, labels)


def _split_at(output: Output, offset: int) -> list[Output]:
    end = output.offset + len(output.data)
    if output.offset < offset < end:
        return [_part(output, output.offset, offset), _part(output, offset, end)]
    return [output]


def _part(output: Output, start: int, end: int) -> Output:
    return Output(output.stream, start, output.data[start - output.offset : end - output.offset])
