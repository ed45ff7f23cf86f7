"""Answers on their way to the program: a host's, without values in it, and our own."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping

import h11

from opencomputer.server.network.proxy.heads import Refusal, header, passed_on, trailers
from opencomputer.server.network.proxy.scrubbing import Scrubber, is_textual
from opencomputer.server.network.proxy.streams import Stream, StreamLost

_LINGER_SECONDS = 2.0
_LINGER_BYTES = 1 << 20
_LENGTH = frozenset({b"content-length"})
_REASONS = {
    400: b"Bad Request",
    403: b"Forbidden",
    405: b"Method Not Allowed",
    407: b"Proxy Authentication Required",
    408: b"Request Timeout",
    421: b"Misdirected Request",
    431: b"Request Header Fields Too Large",
    502: b"Bad Gateway",
    503: b"Service Unavailable",
    504: b"Gateway Timeout",
}


class Answer:
    """One answer on its way to the program, as bytes to be sent."""

    def __init__(self, http: h11.Connection, scrubbed: Mapping[bytes, bytes]) -> None:
        self._http = http
        self._values = dict(scrubbed)
        self._scrubber: Scrubber | None = None
        self._out: list[bytes] = []
        self.begun = False
        """Whether something has been said that a refusal cannot follow."""
        self.switches = False
        """Whether what comes behind this is another protocol."""
        self.complete = False

    def take(self) -> bytes:
        out, self._out = b"".join(self._out), []
        return out

    def take_in(self, event: object) -> bool:
        """Go on with what the host said. False: that is no part of an answer."""
        if isinstance(event, h11.InformationalResponse):
            self._inform(event)
        elif isinstance(event, h11.Response):
            self._begin(event)
        elif isinstance(event, h11.Data):
            self._go_on(bytes(event.data))
        elif isinstance(event, h11.EndOfMessage):
            self._finish(event)
        else:
            return False
        return True

    def _inform(self, event: h11.InformationalResponse) -> None:
        if event.status_code == 101:
            self.begun = self.switches = True
            headers = event.headers.raw_items()
        elif event.status_code == 100 and not self._http.they_are_waiting_for_100_continue:
            return
        else:
            headers = passed_on(event.headers.raw_items())
        self._put(
            h11.InformationalResponse(status_code=event.status_code, headers=headers, reason=event.reason)
        )

    def _begin(self, event: h11.Response) -> None:
        self.begun = True
        headers = passed_on(event.headers.raw_items())
        if self._values:
            whole = Scrubber(self._values)
            headers = [(name, whole.in_text(value)) for name, value in headers]
            encoding = header(event, b"content-encoding").strip().lower()
            if is_textual(header(event, b"content-type")) and encoding in (b"", b"identity"):
                self._scrubber = whole
                headers = passed_on(headers, without=_LENGTH)
        self._put(h11.Response(status_code=event.status_code, headers=headers, reason=event.reason))

    def _go_on(self, data: bytes) -> None:
        piece = self._scrubber.feed(data) if self._scrubber is not None else data
        if piece:
            self._put(h11.Data(piece))

    def _finish(self, event: h11.EndOfMessage) -> None:
        rest = self._scrubber.finish() if self._scrubber is not None else b""
        if rest:
            self._put(h11.Data(rest))
        self._put(h11.EndOfMessage(headers=trailers(event.headers.raw_items())))
        self.complete = True

    def _put(self, event: h11.Event) -> None:
        self._out.append(self._http.send(event) or b"")


def plain_answer(refusal: Refusal) -> bytes:
    """Our own answer, as bytes: also where the connection's protocol is in no state to make one."""
    text = refusal.text.encode() + b"\n"
    return (
        b"HTTP/1.1 %d %s\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: %d\r\n"
        b"Connection: close\r\n\r\n" % (refusal.status, _REASONS.get(refusal.status, b"Error"), len(text))
    ) + text


async def answer_refusal(guest: Stream, refusal: Refusal) -> None:
    """Answer, and take what still comes for a moment: else the answer could be lost with the connection."""
    with contextlib.suppress(StreamLost, TimeoutError):
        guest.send(plain_answer(refusal))
        guest.end()
        async with asyncio.timeout(_LINGER_SECONDS):
            taken = 0
            while taken < _LINGER_BYTES and (more := await guest.receive()):
                taken += len(more)
