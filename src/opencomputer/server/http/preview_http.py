"""One HTTP request of a visitor, told to the program, and its answer, told to the visitor as it comes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Protocol, cast

import h11
from starlette.types import Receive, Scope, Send

from opencomputer.server.domain.errors import InvalidInput, OpenComputerError, ProgramFault, ProgramSilent
from opencomputer.server.http.preview_headers import Headers, answer_headers, first, request_headers, target
from opencomputer.server.http.streams import run_until_one_ends

_Say = Callable[[Any], Awaitable[None]]

FIRST_BYTE_SECONDS = 60.0
"""How long a program may take to begin its answer, after the last it was told. The rest may take any time."""
MOST_HEAD_BYTES = 256 * 1024


class ByteStream(Protocol):
    """A connection to a program."""

    async def read(self) -> bytes: ...

    async def write(self, data: bytes) -> None: ...

    async def end(self) -> None: ...


class Conversation:
    """HTTP/1.1 on the program's side of one connection."""

    def __init__(self, stream: ByteStream) -> None:
        self._stream = stream
        self._h11 = h11.Connection(h11.CLIENT, max_incomplete_event_size=MOST_HEAD_BYTES)
        self._patience: asyncio.Timeout | None = None

    async def say(self, event: Any) -> None:
        """Send an event. Raises ProgramFault, also for what cannot be said in HTTP."""
        try:
            data = cast("bytes | None", self._h11.send(event))
        except h11.LocalProtocolError as error:
            raise ProgramFault(f"the request cannot be passed on: {error}") from error
        if data:
            await self._stream.write(data)
        self._be_patient(asyncio.get_running_loop().time() + FIRST_BYTE_SECONDS)

    def wait_for_visitor(self) -> None:
        """It is not the program that keeps us waiting, until it has been told more."""
        self._be_patient(None)

    def _be_patient(self, until: float | None) -> None:
        if self._patience is not None and not self._patience.expired():
            self._patience.reschedule(until)

    async def hear(self) -> Any:
        """The next event. Raises ProgramFault when it cannot be read."""
        while True:
            try:
                event = self._h11.next_event()
                if event is h11.NEED_DATA:
                    self._h11.receive_data(await self._stream.read())
                    continue
            except h11.RemoteProtocolError as error:
                raise ProgramFault(f"the program's answer is not HTTP: {error}") from error
            if isinstance(event, h11.ConnectionClosed) or event is h11.PAUSED:
                raise ProgramFault("the program closed the connection without an answer")
            return event

    async def hear_head(self) -> Any:
        """The head of the answer: a Response, or the InformationalResponse 101.

        Raises ProgramSilent when it does not come in time."""
        try:
            async with asyncio.timeout(FIRST_BYTE_SECONDS) as self._patience:
                while True:
                    head = await self.hear()
                    if isinstance(head, h11.Response) or head.status_code == 101:
                        return head
        except TimeoutError as error:
            raise ProgramSilent from error
        finally:
            self._patience = None

    @property
    def beyond(self) -> bytes:
        """What came behind the head of an answer that leaves HTTP."""
        return self._h11.trailing_data[0]


@dataclass(frozen=True)
class RelayedRequest:
    head: h11.Request
    has_body: bool


class HttpRelay:
    """`begun` tells whether the visitor has seen the head of an answer: after that no error can be told."""

    def __init__(self) -> None:
        self.begun = False

    async def run(self, stream: ByteStream, request: RelayedRequest, receive: Receive, send: Send) -> None:
        """Return when the answer is complete, or the visitor has gone. Raises as the program's side does."""
        conversation = Conversation(stream)
        await conversation.say(request.head)
        if not request.has_body:
            await conversation.say(h11.EndOfMessage())
        say = conversation.say if request.has_body else _nothing
        await run_until_one_ends(self._answer(conversation, send), _upload(conversation, say, receive))

    async def _answer(self, conversation: Conversation, send: Send) -> None:
        head = await conversation.hear_head()
        if not isinstance(head, h11.Response):
            raise ProgramFault("the program switched protocols without being asked")
        headers = answer_headers(head.headers, status=head.status_code)
        self.begun = True
        await send({"type": "http.response.start", "status": head.status_code, "headers": headers})
        while not isinstance(event := await conversation.hear(), h11.EndOfMessage):
            await send({"type": "http.response.body", "body": bytes(event.data), "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _upload(
    conversation: Conversation, say: Callable[[Any], Awaitable[None]], receive: Receive
) -> None:
    """Pass on the body; return when the visitor has gone. A program need not hear it all to answer."""
    while True:
        if say is not _nothing:
            conversation.wait_for_visitor()
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        try:
            if message.get("body"):
                await say(h11.Data(data=message["body"]))
            if not message.get("more_body"):
                await say(h11.EndOfMessage())
                say = _nothing
        except OpenComputerError:
            say = _nothing


async def _nothing(_event: Any) -> None:
    return


def request_of(scope: Scope, *, bearer_was_token: bool) -> RelayedRequest:
    """A visitor's request as the program gets it, on a connection of its own."""
    chunked = first(scope["headers"], b"transfer-encoding") is not None
    sized = first(scope["headers"], b"content-length") is not None
    headers = request_headers(
        scope, bearer_was_token=bearer_was_token, drop=(b"content-length",) if chunked else ()
    )
    last = [(b"transfer-encoding", b"chunked")] if chunked else []
    head = make_request(scope["method"], target(scope), headers, last=[*last, (b"connection", b"close")])
    return RelayedRequest(head, has_body=chunked or sized)


def make_request(
    method: str, target: bytes, headers: list[tuple[bytes, bytes]], *, last: Headers
) -> h11.Request:
    """A request as the program gets it; `last` are headers that concern only the way to it."""
    try:
        return h11.Request(method=method, target=target, headers=[*headers, *last])
    except h11.LocalProtocolError as error:
        raise InvalidInput(f"the request cannot be passed on: {error}") from error
