"""Whatever comes in between, at whichever step: afterwards nothing is in between, and nothing is lost."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from opencomputer.server.domain.errors import OpenComputerError
from opencomputer.server.domain.sandbox import SandboxState, StopReason
from tests.support.memory.stores import MemorySandboxes
from tests.unit.server.services.harness import ORG
from tests.unit.server.services.steps import (
    OPERATIONS,
    Operation,
    Stage,
    check_rest,
    check_use,
    interfered,
    stage_of,
    steps_of,
)

pytestmark = pytest.mark.anyio

AT_REST = (SandboxState.RUNNING, SandboxState.HIBERNATED)


class Injected(Exception):
    """What no code expects."""


async def fail(_stage: Stage, _step: str) -> None:
    raise Injected


async def kill(stage: Stage, _step: str) -> None:
    await stage.process.lifecycle.kill(ORG, stage.sandbox.id)


@pytest.mark.parametrize("operation", OPERATIONS, ids=str)
async def test_an_operation_leaves_everything_at_rest(operation: Operation, tmp_path: Path) -> None:
    async with stage_of(operation, tmp_path) as stage:
        await operation.work(stage)
        await asyncio.sleep(1)
        assert stage.row.state is operation.state
        check_rest(stage.node, stage.process)
        await check_use(stage.node, stage.process)


@pytest.mark.parametrize("operation", OPERATIONS, ids=str)
async def test_a_step_that_fails_leaves_the_sandbox_as_it_was_or_as_it_is_to_be(
    operation: Operation, tmp_path: Path
) -> None:
    """A store, a machine or a disk fails once, at each step in turn."""
    for number, _ in enumerate(await steps_of(operation, tmp_path / "steps")):
        async with interfered(operation, tmp_path / str(number), number, fail) as (stage, step, error):
            print(number, step, repr(error))
            assert stage.row.state in AT_REST
            check_rest(stage.node, stage.process, tidy=False)
            await check_use(stage.node, stage.process)


@pytest.mark.parametrize("number", range(3))
@pytest.mark.parametrize("operation", OPERATIONS, ids=str)
async def test_a_move_whose_answer_is_lost_was_made_all_the_same(
    operation: Operation, number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who took it for refused would remove what the sandbox stands on by now."""
    async with stage_of(operation, tmp_path) as stage:
        move, left = MemorySandboxes.move, [number]

        async def answer_lost(*arguments: Any, **options: Any) -> bool:
            moved = await move(*arguments, **options)
            left[0] -= 1
            if left[0] == -1:
                raise Injected
            return moved

        monkeypatch.setattr(MemorySandboxes, "move", answer_lost)
        with suppress(Injected):
            await operation.work(stage)
        monkeypatch.undo()
        await asyncio.sleep(1)
        assert stage.row.state is operation.state
        check_rest(stage.node, stage.process)
        await check_use(stage.node, stage.process)


@pytest.mark.parametrize("operation", OPERATIONS, ids=str)
async def test_a_kill_wins_at_every_step_and_leaves_nothing(operation: Operation, tmp_path: Path) -> None:
    for number, _ in enumerate(await steps_of(operation, tmp_path / "steps")):
        async with interfered(operation, tmp_path / str(number), number, kill) as (stage, step, error):
            print(number, step, error)
            assert (stage.row.state, stage.row.stop_reason) == (
                SandboxState.STOPPED,
                StopReason.USER_REQUESTED,
            )
            assert stage.row.machine_id is None
            assert error is None or isinstance(error, OpenComputerError)
            check_rest(stage.node, stage.process)


@pytest.mark.parametrize("operation", OPERATIONS, ids=str)
async def test_a_caller_that_goes_away_at_any_step_leaves_everything_at_rest(
    operation: Operation, tmp_path: Path
) -> None:
    for number, _ in enumerate(await steps_of(operation, tmp_path / "steps")):
        callers: list[asyncio.Task[object]] = []

        async def go_away(_stage: Stage, _step: str, callers: list[asyncio.Task[object]] = callers) -> None:
            callers[0].cancel()

        async def called(stage: Stage, callers: list[asyncio.Task[object]] = callers) -> object:
            callers.append(asyncio.ensure_future(operation.work(stage)))
            return await callers[0]

        asked = Operation(operation.name, called, operation.prepare)
        async with interfered(asked, tmp_path / str(number), number, go_away) as (stage, step, _):
            print(number, step)
            assert stage.row.state in AT_REST
            check_rest(stage.node, stage.process)
            await check_use(stage.node, stage.process)
