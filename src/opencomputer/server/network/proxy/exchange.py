"""HTTP/1 between a program and a host, with substitution on the way there and scrubbing on the way back."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import h11

from opencomputer.server.network.proxy.answers import Answer, answer_refusal
from opencomputer.server.network.proxy.bodies import Way, framing_of, way_of
from opencomputer.server.network.proxy.heads import (
    MOST_HEAD_BYTES,
    Refusal,
    check_head,
    header,
    outgoing_request,
    trailers,
)
from opencomputer.server.network.proxy.streams import PlainStream, Stream, StreamLost, TlsStream, relay
from opencomputer.server.network.proxy.tokens import BodyReplacer, Notation, Substitution, notation_of

_HEAD_SECONDS = 30.0
_END = b"\r\n\r\n"


class Upstream:
    """A connection to a host on which requests are sent."""

    def __init__(self, stream: PlainStream | TlsStream) -> None:
        self.stream = stream
        self.http = h11.Connection(h11.CLIENT, max_incomplete_event_size=MOST_HEAD_BYTES)
        self.requests = 0

    def usable(self) -> bool:
        """Whether another request may be sent."""
        return self.http.our_state is h11.IDLE and not self.stream.over

    def recycle(self) -> None:
        if self.http.our_state is h11.DONE and self.http.their_state is h11.DONE:
            self.http.start_next_cycle()
        else:
            self.stream.close()


@dataclass(frozen=True)
class Admitted:
    """A request that may go: where to, with which secrets, and which values must not come back."""

    upstream: Upstream
    substitution: Substitution
    scrubbed: Mapping[bytes, bytes] = field(default_factory=dict[bytes, bytes])


class Route(Protocol):
    """Says of each request whether and where it goes."""

    async def admit(self, request: h11.Request) -> Admitted:
        """Raises Refusal."""
        ...

    def refused(self, refusal: Refusal) -> None:
        """Take down that a request got an answer of ours, which is also the last one."""
        ...


class Conversation:
    """All requests of one connection of a program, one after the other, however many it sends ahead."""

    def __init__(self, guest: Stream, route: Route) -> None:
        self._guest = guest
        self._route = route
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=MOST_HEAD_BYTES)
        self._answer = Answer(self._http, {})
        self._body_fault: Refusal | None = None

    async def run(self) -> None:
        """Returns when there is no more to do. Raises StreamLost."""
        try:
            while await self._serve_one():
                pass
        except Refusal as refusal:
            self._route.refused(refusal)
            if not self._answer.begun:
                await answer_refusal(self._guest, refusal)

    async def _serve_one(self) -> bool:
        self._answer = Answer(self._http, {})
        if not await self._head_is_there():
            return False
        try:
            request = self._http.next_event()
        except h11.RemoteProtocolError as error:
            raise Refusal(400, "bad_request", f"The request cannot be understood: {error}.") from error
        if not isinstance(request, h11.Request):
            return False
        if request.method == b"CONNECT":
            raise Refusal(405, "bad_request", "CONNECT is not possible here.")
        if not header(request, b"host"):
            raise Refusal(400, "bad_request", "The request names no host.")
        admitted = await self._route.admit(request)
        try:
            await self._exchange(request, admitted)
        finally:
            admitted.upstream.recycle()
        if self._http.our_state is h11.DONE and self._http.their_state is h11.DONE:
            self._http.start_next_cycle()
            return True
        return False

    async def _head_is_there(self) -> bool:
        """Wait for the next request, and look at its head before anything interprets it."""
        start = self._http.trailing_data[0]
        if not start:
            start = await self._guest.receive()
            if not start:
                return False
            self._http.receive_data(start)
        try:
            async with asyncio.timeout(_HEAD_SECONDS):
                while (end := start.find(_END)) < 0 and len(start) <= MOST_HEAD_BYTES:
                    more = await self._guest.receive()
                    if not more:
                        return False
                    self._http.receive_data(more)
                    start += more
        except TimeoutError as error:
            raise Refusal(408, "bad_request", "The request's head did not come in time.") from error
        if not 0 <= end <= MOST_HEAD_BYTES:
            raise Refusal(431, "bad_request", "The request's head is too long.")
        check_head(start[: end + len(_END)])
        return True

    async def _exchange(self, request: h11.Request, admitted: Admitted) -> None:
        upstream, way = admitted.upstream, way_of(request, admitted.substitution)
        self._answer = Answer(self._http, admitted.scrubbed)
        held = await self._hold_body(request, admitted.substitution) if way is Way.HELD else b""
        outgoing = outgoing_request(request, admitted.substitution, framing_of(request, way, held))
        start = upstream.http.send(outgoing) or b""
        upstream.requests += 1
        if way is Way.HELD or not _has_body(request):
            if held:
                start += upstream.http.send(h11.Data(held)) or b""
            else:
                self._http.next_event()
            start += upstream.http.send(h11.EndOfMessage()) or b""
            upstream.stream.send(start)
            await self._pass_answer(upstream)
            return
        upstream.stream.send(start)
        replacer = BodyReplacer(admitted.substitution, _notation(request)) if way is Way.STREAMED else None
        sending = asyncio.get_running_loop().create_task(self._send_body(upstream, replacer))
        try:
            await self._pass_answer(upstream)
        finally:
            sending.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await sending

    async def _hold_body(self, request: h11.Request, substitution: Substitution) -> bytes:
        if self._http.they_are_waiting_for_100_continue:
            go_on = h11.InformationalResponse(status_code=100, headers=[], reason=b"Continue")
            self._guest.send(self._http.send(go_on) or b"")
        pieces: list[bytes] = []
        while not isinstance(event := await self._next_of_body(), h11.EndOfMessage):
            pieces.append(bytes(event.data))
        replacer = BodyReplacer(substitution, _notation(request))
        return replacer.feed(b"".join(pieces)) + replacer.finish()

    async def _send_body(self, upstream: Upstream, replacer: BodyReplacer | None) -> None:
        """Never raises: what goes wrong here ends the connection to the host, and so the answer."""
        try:
            while isinstance(event := await self._next_of_body(), h11.Data):
                data = bytes(event.data)
                piece = replacer.feed(data) if replacer is not None else data
                if piece:
                    upstream.stream.send(upstream.http.send(h11.Data(piece)) or b"")
                    await upstream.stream.flush()
            last = b""
            if replacer is not None and (rest := replacer.finish()):
                last = upstream.http.send(h11.Data(rest)) or b""
            end = h11.EndOfMessage(headers=trailers(event.headers.raw_items()))
            upstream.stream.send(last + (upstream.http.send(end) or b""))
        except Refusal as fault:
            self._body_fault = fault
            upstream.stream.close()
        except (StreamLost, h11.LocalProtocolError):
            upstream.stream.close()

    async def _next_of_body(self) -> h11.Data | h11.EndOfMessage:
        while True:
            try:
                event = self._http.next_event()
            except h11.RemoteProtocolError as error:
                raise Refusal(400, "bad_request", f"The body cannot be understood: {error}.") from error
            if isinstance(event, h11.Data | h11.EndOfMessage):
                return event
            if event is not h11.NEED_DATA:
                raise StreamLost("the request has no end")
            self._http.receive_data(await self._guest.receive())

    async def _pass_answer(self, upstream: Upstream) -> None:
        """Pass an answer on as it comes: what is there goes out before more is waited for."""
        answer = self._answer
        while True:
            try:
                event = upstream.http.next_event()
            except h11.RemoteProtocolError as error:
                raise self._broken(upstream) from error
            if event is h11.NEED_DATA:
                await self._send(answer.take())
                upstream.http.receive_data(await self._received(upstream))
            elif not answer.take_in(event):
                raise self._broken(upstream)
            elif answer.switches:
                await self._send(answer.take())
                await self._switch(upstream)
                return
            elif answer.complete:
                await self._send(answer.take())
                return

    async def _received(self, upstream: Upstream) -> bytes:
        try:
            return await upstream.stream.receive()
        except StreamLost as lost:
            raise self._broken(upstream) from lost

    async def _send(self, data: bytes) -> None:
        if data:
            self._guest.send(data)
            await self._guest.flush()

    def _broken(self, upstream: Upstream) -> Exception:
        """A host that hangs up on a connection that was idle did nothing wrong: the program tries again."""
        upstream.stream.close()
        if self._body_fault is not None:
            return self._body_fault
        if self._answer.begun or upstream.requests > 1:
            return StreamLost("the host has hung up")
        return Refusal(502, "upstream_http", "The host gave no answer that could be understood.")

    async def _switch(self, upstream: Upstream) -> None:
        self._guest.unread(self._http.trailing_data[0])
        upstream.stream.unread(upstream.http.trailing_data[0])
        await relay(self._guest, upstream.stream)


def _has_body(request: h11.Request) -> bool:
    return bool(header(request, b"transfer-encoding")) or int(header(request, b"content-length") or b"0") > 0


def _notation(request: h11.Request) -> Notation:
    return notation_of(header(request, b"content-type"))
