"""One thing at a time with a sandbox as a whole, and the store says so before it is done."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from pathlib import Path

import pytest

from opencomputer.server.domain.errors import OperationInProgress
from opencomputer.server.domain.sandbox import SandboxState
from opencomputer.server.services.sandboxes.transitions import Transitions
from opencomputer.wire.ids import SandboxId
from tests.unit.server.services.harness import ORG
from tests.unit.server.services.steps import (
    CHECKPOINT,
    DIFF,
    FORK,
    HIBERNATE,
    REBOOT,
    RESTORE,
    WAKE,
    Operation,
    Stage,
    Steps,
    stage_of,
)

pytestmark = pytest.mark.anyio

ONE, ANOTHER = SandboxId("sb-00000001"), SandboxId("sb-00000002")


def test_a_second_one_is_refused_at_once_and_told_what_is_in_progress() -> None:
    transitions = Transitions()
    with transitions.exclusive(ONE, "a restore", closes=True):
        second = transitions.exclusive(ONE, "a checkpoint", closes=False)
        with pytest.raises(OperationInProgress, match="a restore is in progress"), second:
            pass
        assert transitions.busy(ONE)


def test_sandboxes_do_not_exclude_each_other() -> None:
    transitions = Transitions()
    other = transitions.exclusive(ANOTHER, "a restore", closes=True)
    with transitions.exclusive(ONE, "a restore", closes=True), other:
        assert transitions.busy(ANOTHER)


def test_whoever_fails_lets_others_in() -> None:
    transitions = Transitions()
    with pytest.raises(ValueError), transitions.exclusive(ONE, "a restore", closes=True):
        raise ValueError
    assert not transitions.busy(ONE)


def test_only_what_closes_a_sandbox_keeps_calls_from_it() -> None:
    transitions = Transitions()
    assert not transitions.closes(ONE)
    with transitions.exclusive(ONE, "a checkpoint", closes=False):
        assert not transitions.closes(ONE)
    with transitions.exclusive(ONE, "a restore", closes=True):
        assert transitions.closes(ONE)
        assert not transitions.closes(ANOTHER)


async def test_who_waits_goes_on_when_nothing_is_in_progress_any_more() -> None:
    """Also when one thing follows the other at once."""
    transitions = Transitions()
    await transitions.over(ONE)
    with transitions.exclusive(ONE, "a restore", closes=True):
        waiting = asyncio.create_task(transitions.over(ONE))
        await asyncio.sleep(1)
    with transitions.exclusive(ONE, "a reboot", closes=True):
        await asyncio.sleep(1)
        assert not waiting.done()
    await waiting


# Operations on one sandbox

EXCLUSIVE = [CHECKPOINT, FORK, RESTORE, HIBERNATE, REBOOT, DIFF]
CLOSING = [RESTORE, HIBERNATE, REBOOT]


async def begun(operation: Operation, stage: Stage) -> asyncio.Task[object]:
    """The operation, when it has got to the machine, for which it takes a while."""
    begun = asyncio.Event()

    async def slow(step: str, _machine: object) -> None:
        if step in ("save", "start"):
            begun.set()
            await asyncio.sleep(1)

    async def work() -> object:
        return await operation.work(stage)

    stage.node.host.before = slow
    task = asyncio.create_task(work())
    await begun.wait()
    return task


@pytest.mark.parametrize(
    ("first", "second"),
    [(one, two) for one in EXCLUSIVE for two in EXCLUSIVE if one not in CLOSING or two is not FORK],
    ids=str,
)
async def test_of_two_operations_one_wins_and_the_other_is_refused(
    first: Operation, second: Operation, tmp_path: Path
) -> None:
    async with stage_of(RESTORE, tmp_path) as stage:
        winner = await begun(first, stage)
        with pytest.raises(OperationInProgress):
            await second.work(stage)
        await winner
        assert stage.row.state is first.state


@pytest.mark.parametrize("first", CLOSING, ids=str)
async def test_a_live_fork_waits_like_any_call_and_wakes_what_has_gone_to_sleep(
    first: Operation, tmp_path: Path
) -> None:
    async with stage_of(RESTORE, tmp_path) as stage:
        one = await begun(first, stage)
        await FORK.work(stage)
        await one
        assert stage.row.state is SandboxState.RUNNING
        assert len(stage.process.live) == 4


@pytest.mark.parametrize("first", CLOSING, ids=str)
async def test_a_call_waits_until_it_is_over_and_gets_the_machine_of_then(
    first: Operation, tmp_path: Path
) -> None:
    async with stage_of(RESTORE, tmp_path) as stage:
        old = await stage.process.reach.live(ORG, stage.sandbox.id)
        one = await begun(first, stage)
        live = await stage.process.reach.live(ORG, stage.sandbox.id)
        assert not stage.process.transitions.busy(stage.sandbox.id)
        assert live.machine.id == stage.row.machine_id
        assert live is not old
        await one


@pytest.mark.parametrize("operation", [HIBERNATE, RESTORE, REBOOT, WAKE], ids=str)
async def test_the_same_operation_twice_at_once_is_done_once(operation: Operation, tmp_path: Path) -> None:
    """One of the two is refused, except that waking twice is waking once."""
    async with stage_of(operation, tmp_path) as stage:
        before = len(stage.node.host.started)
        outcomes = await asyncio.gather(operation.work(stage), operation.work(stage), return_exceptions=True)
        refused = [each for each in outcomes if isinstance(each, OperationInProgress)]
        assert len(refused) == (0 if operation is WAKE else 1)
        assert len(stage.node.host.started) - before == (0 if operation is HIBERNATE else 1)


# What the store says while it is done

ACTS = {
    HIBERNATE: (SandboxState.HIBERNATING, {"host.save", "host.saved", "artefacts.keep_memory"}),
    WAKE: (SandboxState.WAKING, {"host.start", "host.identify", "machines.claim"}),
    RESTORE: (SandboxState.RESTORING, {"host.start", "host.identify", "machines.claim"}),
    REBOOT: (SandboxState.REBOOTING, {"host.save", "host.start", "host.identify", "machines.claim"}),
    CHECKPOINT: (SandboxState.RUNNING, {"host.save"}),
    FORK: (SandboxState.RUNNING, {"host.save"}),
}


@pytest.mark.parametrize("operation", ACTS, ids=str)
async def test_the_state_is_stored_before_the_act(operation: Operation, tmp_path: Path) -> None:
    state, acts = ACTS[operation]
    async with stage_of(operation, tmp_path) as stage:
        seen: defaultdict[str, set[SandboxState]] = defaultdict(set)

        async def look(step: str) -> None:
            seen[step].add(stage.row.state)

        Steps(look).watch(stage)
        await operation.work(stage)
        await asyncio.sleep(1)
    assert acts <= set(seen)
    assert {step: seen[step] for step in acts} == {step: {state} for step in acts}


@pytest.mark.parametrize("operation", [HIBERNATE, RESTORE, REBOOT], ids=str)
async def test_the_old_machine_is_let_go_only_after_the_store_says_that_it_is_not_needed(
    operation: Operation, tmp_path: Path
) -> None:
    async with stage_of(operation, tmp_path) as stage:
        old = stage.row.machine_id
        seen: list[tuple[SandboxState, bool]] = []

        async def look(step: str, machine: object) -> None:
            if step == "stop":
                seen.append((stage.row.state, stage.row.machine_id == machine))
                assert machine == old

        stage.node.host.before = look
        await operation.work(stage)
        await asyncio.sleep(1)
        assert seen == [(operation.state, False)]
