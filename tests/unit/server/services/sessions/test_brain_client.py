"""What the server makes of a brain's answers, whatever they are."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

import pytest

from opencomputer.server.contracts.runtimes import (
    BrainBusy,
    BrainFault,
    BrainHealth,
    BrainLine,
    BrainRequest,
)
from opencomputer.server.domain.errors import MachineLost, NothingListens, ProgramFault
from opencomputer.server.services.sessions import brain_client
from opencomputer.server.services.sessions.brain_client import DialledBrain

pytestmark = pytest.mark.anyio

REQUEST = BrainRequest(
    turn_id="trn_1",
    input=["hello", "there"],
    model="scripted/echo",
    system_prompt="Be brief.",
    mcp_endpoint="http://169.254.169.254/v1/tools/t/mcp",
    resume=True,
    endpoint_profile={"mode": "none"},
)
DONE = {"kind": "done", "reason": "quiescent"}


class Silence(Exception):
    """A program that has this failure says nothing any more."""


class Program:
    """A program that answers with fixed pieces, then ends, or fails with `failure`."""

    def __init__(self, *pieces: bytes, failure: Exception | None = None) -> None:
        self._pieces = list(pieces)
        self._failure = failure
        self.asked = b""
        self.left = False

    async def read(self) -> bytes:
        if self._pieces:
            return self._pieces.pop(0)
        if isinstance(self._failure, Silence):
            await asyncio.Event().wait()
        if self._failure is not None:
            raise self._failure
        return b""

    async def write(self, data: bytes) -> None:
        self.asked += data

    async def end(self) -> None:
        pass

    @asynccontextmanager
    async def dial(self, port: int) -> AsyncGenerator[Program]:
        assert port == 8080
        try:
            yield self
        finally:
            self.left = True


def answer(body: object, status: str = "200 OK") -> bytes:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return f"HTTP/1.1 {status}\r\ncontent-length: {len(data)}\r\n\r\n".encode() + data


def stream(*lines: object) -> bytes:
    data = b"".join(line if isinstance(line, bytes) else json.dumps(line).encode() + b"\n" for line in lines)
    chunked = b"%x\r\n%s\r\n0\r\n\r\n" % (len(data), data)
    return b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + chunked


async def lines_of(program: Program) -> Sequence[BrainLine]:
    async with DialledBrain(program.dial).turn(REQUEST) as lines:
        return [line async for line in lines]


async def test_health_says_whether_it_is_ready_and_busy() -> None:
    said = {"status": "ready", "contract_version": "1", "busy": True}
    assert await DialledBrain(Program(answer(said)).dial).health() == BrainHealth(ready=True, busy=True)


@pytest.mark.parametrize(
    "said",
    [{"status": "starting", "contract_version": "1"}, {"status": "ready", "contract_version": "2"}, {}],
)
async def test_whatever_else_it_says_is_not_ready(said: object) -> None:
    assert await DialledBrain(Program(answer(said)).dial).health() == BrainHealth(ready=False, busy=False)


@pytest.mark.parametrize(
    "said",
    [
        answer(b"[]"),
        answer(b"no json"),
        answer(b"[" * 60_000),
        answer(b" " * 100_000),
        b"SSH-2.0\r\n\r\n",
        b"",
    ],
)
async def test_health_that_is_no_answer_is_a_fault(said: bytes) -> None:
    with pytest.raises(BrainFault):
        await DialledBrain(Program(said).dial).health()


async def test_nobody_there_is_a_fault_and_a_lost_machine_is_told_as_it_is() -> None:
    with pytest.raises(BrainFault):
        await DialledBrain(Program(failure=NothingListens()).dial).health()
    with pytest.raises(MachineLost):
        await DialledBrain(Program(failure=MachineLost()).dial).health()


async def test_health_has_two_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(brain_client, "HEALTH_SECONDS", 0.001)
    program = Program(failure=Silence())
    with pytest.raises(BrainFault, match="does not answer"):
        await DialledBrain(program.dial).health()
    assert program.left


async def test_the_request_is_what_the_contract_says() -> None:
    program = Program(stream(DONE))
    await lines_of(program)
    head, _, body = program.asked.partition(b"\r\n\r\n")
    assert head.startswith(b"POST /turn HTTP/1.1\r\n")
    assert json.loads(body) == {
        "contract_version": "1",
        "turn_id": "trn_1",
        "input": [{"role": "user", "content": "hello"}, {"role": "user", "content": "there"}],
        "config": {
            "model": "scripted/echo",
            "system_prompt": "Be brief.",
            "mcp_endpoint": "http://169.254.169.254/v1/tools/t/mcp",
            "state_dir": "/home/sandbox/.oc/runtime-state",
            "resume": True,
            "max_turns": 24,
            "endpoint_profile": {"mode": "none"},
        },
    }


async def test_lines_come_in_order_however_they_are_cut() -> None:
    said = {"seq": 1, "kind": "text", "msg": {"text": "ä\n"}}
    whole = stream(said, b"\n", DONE)
    expected = [BrainLine("text", {"text": "ä\n"}), BrainLine("done", {"reason": "quiescent"})]
    assert await lines_of(Program(whole)) == expected
    assert await lines_of(Program(*(bytes([byte]) for byte in whole))) == expected


async def test_busy_is_told_apart_and_refusals_say_why() -> None:
    with pytest.raises(BrainBusy):
        await lines_of(Program(answer({}, "409 Conflict")))
    with pytest.raises(BrainFault, match="status 400: no such model"):
        await lines_of(Program(answer({"error": {"message": "no such model"}}, "400 Bad Request")))


@pytest.mark.parametrize(
    "said",
    [
        stream(),
        stream({"kind": "text", "msg": {}}),
        stream({"kind": "text", "msg": "no object"}, DONE),
        stream({"kind": 5, "msg": {}}, DONE),
        stream(b"[]\n", DONE),
        stream({"kind": "done", "reason": "because"}),
        stream({"kind": "done", "reason": ["quiescent"]}),
        stream(DONE)[:-12],
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nxyz\r\n",
        b"HTTP/1.1 200 OK\r\nx: " + b"y" * 200_000,
    ],
)
async def test_an_answer_that_breaks_off_or_makes_no_sense_is_a_fault(said: bytes) -> None:
    with pytest.raises(BrainFault):
        await lines_of(Program(said))


async def test_a_connection_that_breaks_is_a_fault() -> None:
    with pytest.raises(BrainFault):
        await lines_of(Program(stream({"kind": "text", "msg": {}})[:-20], failure=ProgramFault()))


async def test_a_line_without_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(brain_client, "MAX_LINE_BYTES", 1000)
    with pytest.raises(BrainFault, match="too much at once"):
        await lines_of(Program(stream(b"x" * 1001)))


async def test_leaving_early_closes_the_connection() -> None:
    program = Program(stream({"kind": "text", "msg": {}}, DONE))
    async with DialledBrain(program.dial).turn(REQUEST) as lines:
        await anext(lines)
    assert program.left
