"""A followed log has no gap and no event twice, however often the connection is lost."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence

import httpx
import pytest

from opencomputer import AuthError, NotFoundError, UnexpectedAnswerError
from opencomputer.sdk.durable.client_session import ClientSession
from opencomputer.sdk.durable.events import SessionEvent
from opencomputer.sdk.durable.streams import frames
from tests.unit.sdk.durable.answers import Answers, event_body, refusal

pytestmark = pytest.mark.anyio


class Pieces(httpx.AsyncByteStream):
    """A body that comes in pieces and, perhaps, is cut off."""

    def __init__(self, pieces: Sequence[bytes], cut: bool = False) -> None:
        self._pieces = pieces
        self._cut = cut

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            yield piece
        if self._cut:
            raise httpx.ReadError("cut off")


def frame(seq: int, type: str = "agent.message", **body: object) -> bytes:
    return f"id: {seq}\ndata: {json.dumps(event_body(seq, type, **body), ensure_ascii=False)}\n\n".encode()


def stream(*pieces: bytes, cut: bool = False) -> httpx.Response:
    headers = {"content-type": "text/event-stream"}
    return httpx.Response(200, headers=headers, stream=Pieces([b": hb\n\n", *pieces], cut))


async def read(server: Answers, count: int, **options: object) -> list[int]:
    found: list[int] = []
    async with server.connection() as connection:
        async for event in ClientSession(connection, "ses_1").events(**options):  # pyright: ignore[reportArgumentType]
            found.append(event.seq)
            if len(found) == count:
                break
    return found


async def test_it_goes_on_where_it_was_after_every_kind_of_end() -> None:
    server = Answers(
        stream(frame(1), frame(2), frame(3)[:20], cut=True),
        httpx.ConnectError("refused"),
        refusal(503, "unavailable"),
        stream(frame(2), frame(3)),
        stream(frame(4)),
    )
    assert await read(server, 4) == [1, 2, 3, 4]
    assert [request.url.params["after"] for request in server.requests] == ["0", "2", "2", "2", "3"]
    assert server.requests[-1].headers["last-event-id"] == "3"
    assert server.slept == [1.0] * 4


async def test_events_of_unknown_types_arrive_as_they_are() -> None:
    new = {**event_body(2, "of.the.future", told=[1]), "member": {"also": "new"}}
    named = b"event: of.the.future\nof: the future\nid: 2\ndata: " + json.dumps(new).encode() + b"\n\n"
    async with Answers(stream(frame(1), named, frame(3))).connection() as connection:
        events = ClientSession(connection, "ses_1").events(reconnect=False)
        first, second, third = [event async for event in events]
    assert (first.seq, third.seq) == (1, 3)
    assert (type(second), second.type, second.body) == (SessionEvent, "of.the.future", {"told": [1]})
    assert second.raw == new


async def test_the_position_moves_over_events_that_are_not_wanted() -> None:
    server = Answers(stream(frame(8), frame(9, "tool.call")), stream(frame(10)))
    assert await read(server, 2, type="agent.*", level="user", after=7) == [8, 10]
    assert dict(server.last.url.params) == {"level": "user", "type": "agent.*", "after": "9", "stream": "sse"}


async def test_a_first_opening_that_fails_is_told() -> None:
    for answer, kind in [(httpx.ConnectError("no"), httpx.ConnectError), (refusal(404, "x"), NotFoundError)]:
        with pytest.raises(kind):
            await read(Answers(answer), 1)


async def test_a_refusal_for_good_ends_it() -> None:
    with pytest.raises(AuthError):
        await read(Answers(stream(frame(1)), refusal(401, "unauthorized")), 2)


async def test_without_reconnecting_it_ends_with_the_connection() -> None:
    assert await read(Answers(stream(frame(1))), 9, reconnect=False) == [1]
    with pytest.raises(httpx.ReadError):
        await read(Answers(stream(frame(1), cut=True)), 9, reconnect=False)


async def test_leaving_closes_the_connection() -> None:
    response = stream(frame(1), frame(2))
    server = Answers(response)
    async with server.connection() as connection:
        events = ClientSession(connection, "ses_1").events()
        assert (await anext(events)).seq == 1
        await events.aclose()
    assert response.is_closed


@pytest.mark.parametrize("size", [1, 3, 7, 1000])
@pytest.mark.parametrize("ending", [b"\n", b"\r\n"])
async def test_frames_are_put_together_from_any_pieces(size: int, ending: bytes) -> None:
    text = (b": hb\n\nretry: 2000\n\n" + frame(1, text="a\u2028b\x85c é") + frame(2)).replace(b"\n", ending)

    async def pieces() -> AsyncIterator[bytes]:
        for start in range(0, len(text), size):
            yield text[start : start + size]

    found = [json.loads(data) async for data in frames(pieces())]
    assert [each["seq"] for each in found] == [1, 2]
    assert found[0]["body"]["text"] == "a\u2028b\x85c é"


async def test_a_page_instead_of_events_is_an_error_and_not_waited_out() -> None:
    server = Answers(stream(frame(1)), httpx.Response(200, html="<p>Sign in</p>"))
    with pytest.raises(UnexpectedAnswerError, match="did not answer with events"):
        await read(server, 2)
