"""One WebSocket of a visitor, joined to one of the program: messages, closes and refusals go through."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import secrets
from contextlib import suppress
from typing import Any

import h11
from starlette.websockets import WebSocket
from websockets.exceptions import WebSocketException
from websockets.frames import Frame, Opcode
from websockets.protocol import OPEN, Protocol, Side

from opencomputer.server.domain.errors import OpenComputerError, ProgramFault
from opencomputer.server.http.preview_headers import Headers, answer_headers
from opencomputer.server.http.preview_http import ByteStream, Conversation, make_request
from opencomputer.server.http.streams import INTERNAL, CloseSocket, run_until_one_ends

MOST_MESSAGE_BYTES = 16 << 20
HANDSHAKE = frozenset(
    {
        b"sec-websocket-key",
        b"sec-websocket-version",
        # Compression is between each two neighbours, and neither of ours does any.
        b"sec-websocket-extensions",
        b"content-length",
    }
)
_ANSWER = frozenset({b"sec-websocket-accept", b"sec-websocket-protocol", b"sec-websocket-extensions"})
_MAGIC = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_NO_CODE, _LOST, _GOING_AWAY, _NORMAL = 1005, 1006, 1001, 1000
_GOODBYE_SECONDS = 2.0


class SocketRelay:
    def __init__(self, websocket: WebSocket, stream: ByteStream) -> None:
        self._websocket = websocket
        self._stream = stream
        self._conversation = Conversation(stream)
        self._protocol = Protocol(Side.CLIENT, state=OPEN, max_size=MOST_MESSAGE_BYTES)
        self._pieces: list[bytes] = []
        self._kind = Opcode.BINARY

    async def run(self, target: bytes, headers: list[tuple[bytes, bytes]]) -> None:
        """Join both sides until one closes. Raises ProgramFault before the visitor's side is open."""
        key = base64.b64encode(secrets.token_bytes(16))
        last = [
            (b"connection", b"Upgrade"),
            (b"upgrade", b"websocket"),
            (b"sec-websocket-version", b"13"),
            (b"sec-websocket-key", key),
        ]
        await self._conversation.say(make_request("GET", target, headers, last=last))
        await self._conversation.say(h11.EndOfMessage())
        head = await self._conversation.hear_head()
        if isinstance(head, h11.Response):
            await self._refuse(head)
            return
        await self._accept(head.headers, key)
        await run_until_one_ends(self._from_program(), self._from_visitor())

    async def _refuse(self, head: h11.Response) -> None:
        """The program's own refusal is what the visitor gets."""
        headers = answer_headers(head.headers, status=head.status_code)
        send = self._websocket.send
        await send({"type": "websocket.http.response.start", "status": head.status_code, "headers": headers})
        while not isinstance(event := await self._conversation.hear(), h11.EndOfMessage):
            body = bytes(event.data)
            await send({"type": "websocket.http.response.body", "body": body, "more_body": True})
        await send({"type": "websocket.http.response.body", "body": b"", "more_body": False})

    async def _accept(self, headers: Headers, key: bytes) -> None:
        said = {name.lower(): value for name, value in headers}
        expected = base64.b64encode(hashlib.sha1(key + _MAGIC).digest())
        if not hmac.compare_digest(said.get(b"sec-websocket-accept", b""), expected):
            raise ProgramFault("the program's answer to a WebSocket is not one")
        subprotocol = said.get(b"sec-websocket-protocol")
        passed = [each for each in answer_headers(headers, status=101) if each[0] not in _ANSWER]
        await self._websocket.accept(
            None if subprotocol is None else subprotocol.decode("latin-1"), headers=passed
        )
        self._take(self._conversation.beyond)

    # From the program to the visitor

    async def _from_program(self) -> None:
        try:
            while True:
                await self._flush()
                for event in self._protocol.events_received():
                    assert isinstance(event, Frame)
                    await self._pass_on(event)
                if self._protocol.parser_exc is not None:
                    raise CloseSocket(INTERNAL, "the program broke the WebSocket protocol")
                data = await self._stream.read()
                if not data:
                    raise CloseSocket(INTERNAL, "the program broke off")
                self._take(data)
        except ProgramFault as error:
            raise CloseSocket(INTERNAL, "the program broke off") from error

    def _take(self, data: bytes) -> None:
        if data:
            self._protocol.receive_data(data)

    async def _pass_on(self, frame: Frame) -> None:
        if frame.opcode is Opcode.CLOSE:
            received = self._protocol.close_rcvd
            assert received is not None, "a close has just come"
            raise CloseSocket(_NORMAL if received.code == _NO_CODE else received.code, received.reason)
        if frame.opcode in (Opcode.TEXT, Opcode.BINARY):
            self._kind = frame.opcode
        elif frame.opcode is not Opcode.CONT:
            return  # pings are answered by the protocol itself
        self._pieces.append(bytes(frame.data))
        if not frame.fin:
            return
        message, self._pieces = b"".join(self._pieces), []
        if self._kind is Opcode.BINARY:
            await self._websocket.send_bytes(message)
            return
        try:
            await self._websocket.send_text(message.decode())
        except UnicodeDecodeError as error:
            raise CloseSocket(INTERNAL, "the program sent text that is none") from error

    # From the visitor to the program

    async def _from_visitor(self) -> None:
        # The other direction says why there is nobody to tell, once it has heard everything.
        with suppress(ProgramFault, WebSocketException):
            while True:
                message = await self._websocket.receive()
                if message["type"] == "websocket.disconnect":
                    await self._say_goodbye(message)
                    return
                if message.get("text") is not None:
                    self._protocol.send_text(message["text"].encode())
                else:
                    self._protocol.send_binary(message["bytes"])
                await self._flush()
        await asyncio.Event().wait()

    async def _say_goodbye(self, message: Any) -> None:
        """Close the program's side as the visitor closed theirs, and let it hear so."""
        code = message.get("code") or _NO_CODE
        with suppress(WebSocketException, OpenComputerError, TimeoutError):
            if code == _NO_CODE:
                self._protocol.send_close()
            else:
                self._protocol.send_close(_GOING_AWAY if code == _LOST else code, message.get("reason") or "")
            await self._flush()
            await self._stream.end()
            async with asyncio.timeout(_GOODBYE_SECONDS):
                while await self._stream.read():
                    pass

    async def _flush(self) -> None:
        data = b"".join(self._protocol.data_to_send())
        if data:
            await self._stream.write(data)
