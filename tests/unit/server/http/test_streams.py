"""What all sockets share: refusal, reasons, the race of their parts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from starlette.types import Message, Scope
from starlette.websockets import WebSocket, WebSocketDisconnect

from opencomputer.server.domain.errors import GuestFault, NotFound
from opencomputer.server.http.streams import CloseSocket, refusing_upgrade, run_until_one_ends

pytestmark = pytest.mark.anyio


def socket(sent: list[Message], *, gone: bool = False) -> WebSocket:
    async def receive() -> Message:
        return {"type": "websocket.connect"}

    async def send(message: Message) -> None:
        if gone:
            raise RuntimeError("the client is gone")
        sent.append(message)

    scope: Scope = {
        "type": "websocket",
        "path": "/",
        "headers": [],
        "extensions": {"websocket.http.response": {}},
    }
    return WebSocket(scope, receive, send)


async def serve(error: BaseException, *, accepted: bool, gone: bool = False) -> list[Message]:
    sent: list[Message] = []
    websocket = socket(sent, gone=gone)
    async with refusing_upgrade(websocket):
        if accepted:
            websocket.application_state = websocket.client_state = websocket.client_state.CONNECTED
        raise error
    return sent


async def test_an_error_before_the_upgrade_is_a_plain_answer() -> None:
    start, body = await serve(NotFound("no"), accepted=False)
    assert (start["type"], start["status"]) == ("websocket.http.response.start", 404)
    assert b'"not_found"' in body["body"]


async def test_an_error_after_the_upgrade_closes_as_a_failure() -> None:
    assert await serve(GuestFault("no answer"), accepted=True) == [
        {"type": "websocket.close", "code": 1011, "reason": "no answer"}
    ]


async def test_a_close_has_its_code_and_reason() -> None:
    assert await serve(CloseSocket(1000, "done"), accepted=True) == [
        {"type": "websocket.close", "code": 1000, "reason": "done"}
    ]


@pytest.mark.parametrize("reason", ["x" * 500, "ü" * 500, "☕" * 500, "a" + "☕" * 500])
async def test_a_reason_is_as_long_as_the_protocol_allows_in_bytes(reason: str) -> None:
    (close,) = await serve(CloseSocket(1011, reason), accepted=True)
    assert 100 < len(close["reason"].encode()) <= 123
    assert reason.startswith(close["reason"])


@pytest.mark.parametrize("error", [CloseSocket(1000, "x"), GuestFault(), WebSocketDisconnect()])
async def test_a_client_that_is_gone_is_as_good_as_closed(error: Exception) -> None:
    assert await serve(error, accepted=True, gone=True) == []


# Parts of one conversation


def part(outcome: Exception | None, after: int, log: list[str], name: str) -> Coroutine[Any, Any, None]:
    async def run() -> None:
        try:
            for _ in range(after):
                await asyncio.sleep(0)
            if outcome is not None:
                raise outcome
        except asyncio.CancelledError:
            log.append(name)
            raise

    return run()


async def test_the_first_part_to_end_ends_the_others() -> None:
    log: list[str] = []
    await run_until_one_ends(part(None, 1, log, "a"), part(None, 1000, log, "b"), part(None, 1000, log, "c"))
    assert log == ["b", "c"]


async def test_of_two_that_end_together_the_first_named_is_heard() -> None:
    log: list[str] = []
    with pytest.raises(CloseSocket, match="first"):
        await run_until_one_ends(
            part(CloseSocket(1000, "first"), 3, log, "a"), part(CloseSocket(1011, "second"), 3, log, "b")
        )


async def test_an_end_without_an_error_does_not_hide_one() -> None:
    log: list[str] = []
    with pytest.raises(CloseSocket, match="said"):
        await run_until_one_ends(part(None, 3, log, "a"), part(CloseSocket(1008, "said"), 3, log, "b"))


@pytest.mark.parametrize("outcome", [None, CloseSocket(1000, "x")])
async def test_a_cancellation_from_outside_ends_every_part(outcome: Exception | None) -> None:
    log: list[str] = []
    make: Callable[[str], Coroutine[Any, Any, None]] = lambda name: part(outcome, 10**6, log, name)  # noqa: E731
    whole = asyncio.create_task(run_until_one_ends(make("a"), make("b")))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    whole.cancel()
    with pytest.raises(asyncio.CancelledError):
        await whole
    assert log == ["a", "b"]
