"""One-shot commands: started once, collected in bounded memory, found again after a restart."""

from __future__ import annotations

import asyncio
import tracemalloc

import pytest

from opencomputer.server.contracts.machine import ExitStatus, ProcessKind, ProcessSpec
from opencomputer.server.domain.errors import IdempotencyMismatch, InvalidInput, MachineLost, NotFound
from opencomputer.server.services.sandboxes.commands import (
    OUTPUT_BYTES,
    CommandRequest,
    OutputTail,
    Progress,
)
from opencomputer.server.services.sandboxes.live import LiveSandbox
from opencomputer.wire.ids import ProcessId, SandboxId
from tests.support.memory.machines import MemoryMachine
from tests.support.memory.processes import MemoryProcess, MemoryProcesses
from tests.unit.server.services.harness import Node, Process

pytestmark = pytest.mark.anyio

RUN = CommandRequest("sh", ["-c", "work"], timeout_seconds=60)


def keep_running(_process: MemoryProcess) -> None:
    """A program that ends when the test says so."""


def processes_of(live: LiveSandbox) -> MemoryProcesses:
    assert isinstance(live.machine, MemoryMachine)
    return live.machine.processes


async def started(process: Process) -> tuple[LiveSandbox, Progress, MemoryProcess]:
    """A command that runs until the test ends it."""
    live = await process.live_one()
    processes_of(live).program = keep_running
    progress = await process.commands.start(live, RUN)
    await asyncio.sleep(0)
    return live, progress, processes_of(live).by_id[progress.id]


# The tail of one stream


@pytest.mark.parametrize("piece", [1, 3, 7, 10, 100])
def test_a_tail_keeps_the_last_bytes_whatever_the_pieces(piece: int) -> None:
    data = bytes(range(95))
    tail = OutputTail(limit=10)
    for start in range(0, len(data), piece):
        tail.add(data[start : start + piece])
    assert tail.value() == data[-10:]
    assert tail.cut


def test_a_tail_that_is_just_full_is_whole() -> None:
    tail = OutputTail(limit=10)
    tail.add(b"12345")
    tail.add(b"67890")
    assert tail.value() == b"1234567890"
    assert not tail.cut


@pytest.mark.parametrize("pieces", [[b"12345", b"678901"], [b"12345678901"], [b"1"] * 11])
def test_whoever_asks_whether_a_tail_is_cut_need_not_have_looked_at_it(pieces: list[bytes]) -> None:
    tail = OutputTail(limit=10)
    for piece in pieces:
        tail.add(piece)
    assert tail.cut


def test_empty_pieces_add_nothing() -> None:
    tail = OutputTail(limit=3)
    for piece in (b"", b"ab", b"", b"c", b""):
        tail.add(piece)
    assert (tail.value(), tail.cut) == (b"abc", False)


def test_endless_output_costs_no_more_than_the_tail() -> None:
    tail = OutputTail()
    tracemalloc.start()
    try:
        for _ in range(200):
            tail.add(bytes(1 << 20))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 6 * OUTPUT_BYTES
    assert len(tail.value()) == OUTPUT_BYTES


def test_output_in_single_bytes_costs_no_more_either() -> None:
    tail = OutputTail(limit=50_000)
    tracemalloc.start()
    try:
        for number in range(200_000):
            tail.add(number.to_bytes(4, "big")[3:])
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 5 * 50_000


# What is asked of the machine


def spec_of(request: CommandRequest, kind: ProcessKind = ProcessKind.RUN) -> ProcessSpec:
    return request.process(kind, SandboxId("sb-00000001"))


def test_a_command_has_no_input_and_a_session_has() -> None:
    assert not spec_of(RUN).stdin
    assert spec_of(RUN, ProcessKind.SESSION).stdin


@pytest.mark.parametrize(("asked", "given"), [(0, None), (None, None), (60, 60)])
def test_a_timeout_of_zero_is_none(asked: int | None, given: int | None) -> None:
    spec = spec_of(CommandRequest("x", timeout_seconds=asked, linger_seconds=asked))
    assert (spec.timeout_seconds, spec.linger_seconds) == (given, given)


@pytest.mark.parametrize(
    "request_",
    [
        CommandRequest("a\0b"),
        CommandRequest("a", ["\0"]),
        CommandRequest("a", cwd=""),
        CommandRequest("a", cwd="\0"),
        CommandRequest("a", environment={"": "x"}),
        CommandRequest("a", environment={"A": "\0"}),
    ],
)
def test_what_no_process_can_be_given_is_refused(request_: CommandRequest) -> None:
    with pytest.raises(InvalidInput):
        spec_of(request_)


# Waiting and results


async def test_a_command_that_ends_is_told_with_all_its_output(node: Node) -> None:
    async with node.process() as process:
        live, progress, program = await started(process)
        program.output(1, b"out")
        program.output(2, b"err")
        program.output(1, b"put")
        program.end(ExitStatus(3))
        done = await process.commands.wait(live, progress, None)
        assert (done.stdout.value(), done.stderr.value()) == (b"output", b"err")
        assert done.exit == ExitStatus(3)
        assert not done.truncated


async def test_waiting_ends_with_the_command_or_the_time(node: Node) -> None:
    async with node.process() as process:
        live, progress, program = await started(process)
        began = process.clock.monotonic()
        assert (await process.commands.wait(live, progress, 2.5)).exit is None
        assert process.clock.monotonic() == began + 2.5
        asyncio.get_running_loop().call_later(1, program.end)
        assert (await process.commands.wait(live, progress, 100)).exit == ExitStatus(0)
        assert process.clock.monotonic() == began + 3.5


async def test_the_output_so_far_can_be_seen_while_it_runs(node: Node) -> None:
    async with node.process() as process:
        live, progress, program = await started(process)
        program.output(1, b"so far")
        seen = await process.commands.result(live, progress.id)
        assert (seen.stdout.value(), seen.exit) == (b"so far", None)


async def test_asking_again_changes_nothing(node: Node) -> None:
    async with node.process() as process:
        live, progress, program = await started(process)
        program.output(1, b"x")
        program.end()
        results = [await process.commands.result(live, progress.id) for _ in range(3)]
        assert [result.stdout.value() for result in results] == [b"x"] * 3


async def test_one_poll_given_up_takes_nothing_from_the_next(node: Node) -> None:
    async with node.process() as process:
        live, progress, program = await started(process)
        poll = asyncio.create_task(process.commands.result(live, progress.id))
        await asyncio.sleep(0.1)
        poll.cancel()
        await asyncio.gather(poll, return_exceptions=True)
        program.end(ExitStatus(7))
        assert (await process.commands.result(live, progress.id)).exit == ExitStatus(7)


async def test_output_beyond_the_limit_is_cut_at_its_beginning_and_said(node: Node) -> None:
    async with node.process() as process:
        live, progress, program = await started(process)
        for number in range(40):
            program.output(1, bytes([number]) * 65536)
        program.end()
        done = await process.commands.wait(live, progress, None)
        assert done.truncated
        assert len(done.stdout.value()) == OUTPUT_BYTES
        assert done.stdout.value()[-1] == 39


async def test_output_that_fell_out_of_the_scrollback_is_said(node: Node) -> None:
    async with node.process() as process:
        live, progress, program = await started(process)
        program.output(1, b"first")
        program.output(1, b"last", skip=100)
        program.end()
        done = await process.commands.wait(live, progress, None)
        assert done.truncated
        assert done.stdout.value() == b"firstlast"


async def test_a_handle_works_after_a_restart_of_the_server(node: Node) -> None:
    async with node.process() as process:
        live, progress, program = await started(process)
        program.output(1, b"before ")
    async with node.process(recover=True) as process:
        live = await process.reach.live(live.sandbox.org_id, live.id)
        program.output(1, b"after")
        program.end(ExitStatus(5))
        found = await process.commands.result(live, progress.id)
        assert (found.stdout.value(), found.exit) == (b"before after", ExitStatus(5))


async def test_an_old_result_is_read_again_from_the_machine(node: Node) -> None:
    """What is kept here is only a cache; the machine keeps it for minutes."""
    async with node.process() as process:
        live, progress, program = await started(process)
        program.output(1, b"kept")
        program.end()
        await process.commands.result(live, progress.id)
        await asyncio.sleep(240)
        assert (await process.commands.result(live, progress.id)).stdout.value() == b"kept"
        await asyncio.sleep(240)
        processes_of(live).forget(progress.id)
        with pytest.raises(NotFound):
            await process.commands.result(live, progress.id)


async def test_results_nobody_asks_for_are_not_kept_for_ever(node: Node) -> None:
    async with node.process() as process:
        live = await process.live_one()
        for _ in range(50):
            await process.commands.start(live, RUN)
        await asyncio.sleep(60)
        await process.commands.start(live, RUN)
        assert len(process.commands._collectors) == 1  # pyright: ignore[reportPrivateUsage] - memory is the point


async def test_a_session_is_no_command(node: Node) -> None:
    async with node.process() as process:
        live = await process.live_one()
        spec = RUN.process(ProcessKind.SESSION, live.id)
        await live.machine.processes.spawn(spec)
        for handle in (ProcessId(spec.id), ProcessId("00000000")):
            with pytest.raises(NotFound):
                await process.commands.result(live, handle)


async def test_a_machine_that_ends_under_a_command_is_told(node: Node) -> None:
    async with node.process() as process:
        live, progress, _ = await started(process)
        wait = asyncio.create_task(process.commands.wait(live, progress, None))
        await asyncio.sleep(1)
        node.machine_of(live.sandbox).die()
        with pytest.raises(MachineLost):
            await wait


# Idempotency


async def test_one_key_starts_one_process(node: Node) -> None:
    async with node.process() as process:
        live = await process.live_one()
        request = CommandRequest("date", idempotency_key="k")
        first, second = [await process.commands.start(live, request) for _ in range(2)]
        assert first.id == second.id
        assert len(processes_of(live).by_id) == 1


async def test_one_key_for_two_commands_is_refused(node: Node) -> None:
    async with node.process() as process:
        live = await process.live_one()
        await process.commands.start(live, CommandRequest("date", idempotency_key="k"))
        with pytest.raises(IdempotencyMismatch):
            await process.commands.start(live, CommandRequest("reboot", idempotency_key="k"))


async def test_without_a_key_each_call_starts_a_process(node: Node) -> None:
    async with node.process() as process:
        live = await process.live_one()
        ids = {(await process.commands.start(live, RUN)).id for _ in range(5)}
        assert len(ids) == 5
