"""Processes and brains that die anywhere: every session ends right, and nothing is done twice unreported."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from dataclasses import dataclass, field

import pytest

from opencomputer.server.contracts.runtimes import BrainFault
from opencomputer.server.domain.sessions import events
from opencomputer.server.domain.sessions.session import SessionStatus, YieldReason
from opencomputer.wire.ids import SessionId
from tests.support.brain_world import Lines, Work, done, text, used
from tests.support.rounds import rounds
from tests.support.tapped import Tap
from tests.unit.server.services.sessions.turns.engine_harness import Platform

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(300)]

RUNS = rounds(20)
CHUNKS = 5
KILLS_IN_A_RUN = 3
CRASHES_IN_A_RUN = 2
STEPS = ("one", "two", "three")
FEWEST_POINTS = 60
"""Where a process can die: a turn that nothing happens to passes about so many of them."""


@dataclass
class Model:
    """One that heeds what it is told: it never repeats what was done, and looks where that is unknown."""

    chance: random.Random
    crashes: int = CRASHES_IN_A_RUN
    deaths: list[str] = field(default_factory=list[str])

    async def __call__(self, work: Work) -> Lines:
        message = work.request.input[0]
        yield text(f"I begin with {message}.")
        for step in STEPS:
            command = f"{step} of {message}"
            if self._is_to_do(work, command):
                self._may_crash()
                await work.tool("bash", command=command)
            self._may_crash()
            yield used(1)
        if message == "ask":
            await work.tool("ask", text="Shall I?")
            self._may_crash()
            yield done("awaiting_input")
        else:
            await work.say(f"{message} is done")
            self._may_crash()
            yield done()

    def _is_to_do(self, work: Work, command: str) -> bool:
        told = [line for line in work.told.splitlines() if line.startswith(f"- bash: {command}")]
        if any(line != f"- bash: {command}" for line in told):
            return False
        unknown = f"- bash: {command}" in told
        return not (unknown and (work.session_id, command) in work.world.effects)

    def _may_crash(self) -> None:
        if self.crashes and self.chance.random() < 0.1:
            self.crashes -= 1
            raise BrainFault("the engine ended")


async def live_and_die(world: Platform, session_id: SessionId, chance: random.Random) -> str:
    """One life of a server's process that ends anywhere; where it ended."""
    tap = Tap()
    tap.dies_at = chance.randint(1, FEWEST_POINTS)
    async with world.life(tap=tap) as life:
        await asyncio.wait(life.keeping, timeout=200)
    return f"{tap.dies_at}: {tap.calls[-1] if tap.calls else ''}"


async def one_run(world: Platform, seed: int) -> None:
    chance = random.Random(seed)
    world.world.otherwise = model = Model(chance)
    first = "ask" if chance.random() < 0.3 else "work"
    session_id = await world.session(first)
    for message in (None, "more work"):
        if message is not None:
            await world.steer(session_id, message)
        for _ in range(chance.randint(1, KILLS_IN_A_RUN)):
            model.deaths.append(await live_and_die(world, session_id, chance))
        async with world.life():
            await world.settled(session_id)
    try:
        await ended_right(world, session_id, first)
    except AssertionError as error:
        raise AssertionError(f"seed {seed}, died at {model.deaths}: {error}") from error


async def ended_right(world: Platform, session_id: SessionId, first: str) -> None:
    await world.check(session_id)
    session, turns = await world.get(session_id), await world.turns(session_id)
    assert session.status is SessionStatus.IDLE
    reason = YieldReason.NEEDS_INPUT if first == "ask" else YieldReason.COMPLETED
    assert [turn.yield_reason for turn in turns] == [reason, YieldReason.COMPLETED]
    told = "Shall I?" if first == "ask" else "work is done"
    assert await world.said(session_id) == [told, "more work is done"]
    assert [turn.result_event_id is not None for turn in turns] == [True, True]
    done_to_hands = [effect for of, effect in world.world.effects if of == session_id]
    assert done_to_hands == [f"{step} of {message}" for message in (first, "more work") for step in STEPS]
    log = await world.log(session_id)
    outcomes = Counter(
        event.refs["call"] for event in log if event.type in (events.EXEC_COMPLETED, events.TOOL_RESULT)
    )
    calls = [event.refs["call"] for event in log if event.type == events.TOOL_CALL]
    assert outcomes == Counter(set(calls)), "each call has one outcome"
    assert len(calls) == len(set(calls))
    certain = [event.body["command"] for event in log if event.type == events.EXEC_COMPLETED]
    assert len(certain) == len(set(certain)), "nothing is reported to be done twice"


@pytest.mark.parametrize("chunk", range(CHUNKS))
async def test_whatever_dies_every_session_ends_right(world: Platform, chunk: int) -> None:
    for seed in range(chunk, RUNS, CHUNKS):
        await one_run(world, seed)


async def test_a_turn_passes_enough_points_to_die_at(world: Platform) -> None:
    """Otherwise the kills above would come too late, or all at its beginning."""
    tap = Tap()
    world.world.otherwise = Model(random.Random(), crashes=0)
    session_id = await world.session("work")
    async with world.life(tap=tap):
        await world.settled(session_id)
    assert FEWEST_POINTS <= tap.points <= 2 * FEWEST_POINTS
