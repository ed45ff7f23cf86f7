"""The sandboxes of a session: made once, restored, woken, started anew, and gone when nobody needs them."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from opencomputer.server.contracts.machine import ExitStatus
from opencomputer.server.contracts.runtimes import BrainFault, BrainNotReady, SkillFile
from opencomputer.server.domain.errors import SnapshotRefused
from opencomputer.server.domain.sandbox import SandboxState
from opencomputer.server.domain.sessions.errors import SessionArchived
from opencomputer.server.services.sessions.boxes_sandboxes import Role, creation_key
from tests.support.sessions import AT, admitted, steer, turn_over
from tests.unit.server.services.harness import ORG, Node, on, settle
from tests.unit.server.services.sessions.boxes_world import STATE, World, world

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    """Real time: that of the database passes whatever the loop's does."""
    return "asyncio"


@pytest.fixture
async def boxed(tmp_path: Path, anyio_backend: object) -> AsyncGenerator[World]:
    async with world(tmp_path) as made:
        yield made


async def test_a_session_has_a_closed_brain_and_open_hands_without_anything_secret(boxed: World) -> None:
    session = await admitted(boxed.tables, ORG)
    await boxed.brain(session)
    await boxed.boxes.hands(session)
    brain, hands = await boxed.sandbox(session, Role.BRAIN), await boxed.sandbox(session, Role.HANDS)
    assert (brain.network_enabled, hands.network_enabled) == (False, True)
    assert (brain.environment, hands.environment) == ({}, {})
    assert brain.metadata == {"oc.session": session.id, "oc.role": "brain"}
    assert hands.metadata == {"oc.session": session.id, "oc.role": "hands"}
    assert await boxed.told(session) == [("sandbox.created", "brain"), ("sandbox.created", "hands")]


async def test_asking_again_disturbs_nothing(boxed: World) -> None:
    session = await admitted(boxed.tables, ORG)
    await boxed.brain(session)
    await boxed.brain(session)
    await boxed.boxes.hands(session)
    assert (await boxed.boxes.hands(session)).lost_before is False
    assert len(boxed.brains()) == 1
    assert len(boxed.node.host.machines) == 2


async def test_the_program_is_written_before_it_is_started(boxed: World) -> None:
    session = await admitted(boxed.tables, ORG, skill_bundle_digest="abc")
    boxed.agents.files = [SkillFile("writing/SKILL.md", b"# Writing", executable=False)]
    await boxed.brain(session)
    machine = await boxed.machine(session, Role.BRAIN)
    assert machine.files.content["/skills/writing/SKILL.md"] == b"# Writing"
    assert "/home/sandbox/.oc/runtime-state" in machine.files.directories
    (started,) = boxed.programs.started
    assert started.spec.environment == {"LANG": "C", "OC_BRAIN_PORT": "8080"}
    boxed.runtime.extra = b"another"
    await boxed.brain(session)
    assert [each.exit is None for each in boxed.programs.started] == [False, True]


async def test_a_brain_that_ends_at_once_is_explained(boxed: World) -> None:
    session = await admitted(boxed.tables, ORG)
    boxed.programs.brain_end = ExitStatus(1)
    with pytest.raises(BrainNotReady, match="no such module"):
        await boxed.brain(session)


async def test_a_brain_gets_thirty_seconds_to_start(boxed: World) -> None:
    session = await admitted(boxed.tables, ORG)
    boxed.programs.warm = False
    begun = boxed.clock.monotonic()
    with pytest.raises(BrainNotReady, match="30 s"):
        await boxed.brain(session)
    assert boxed.clock.monotonic() - begun >= 30
    assert boxed.brains() == []


async def test_a_brain_that_died_is_started_again_where_it_was(boxed: World) -> None:
    session = await admitted(boxed.tables, ORG)
    await boxed.brain(session)
    machine = await boxed.machine(session, Role.BRAIN)
    machine.writable[STATE] = "half a turn"
    boxed.programs.started[0].end(ExitStatus(139))
    await boxed.brain(session)
    assert await boxed.machine(session, Role.BRAIN) is machine
    assert machine.writable[STATE] == "half a turn"
    assert len(boxed.brains()) == 1


async def test_a_hung_brain_is_killed_and_started_again(boxed: World) -> None:
    session = await admitted(boxed.tables, ORG)
    await boxed.brain(session)
    boxed.programs.hung = True
    with pytest.raises(BrainNotReady):
        await boxed.brain(session)
    boxed.programs.hung = False
    await boxed.brain(session)
    assert [each.exit is None for each in boxed.programs.started] == [False, False, True]
    await boxed.boxes.kill_brain(session)
    assert boxed.brains() == []


async def test_a_lost_brain_is_rebuilt_from_the_state_of_its_last_turn(boxed: World) -> None:
    session = await admitted(boxed.tables, ORG)
    await boxed.brain(session)
    machine = await boxed.machine(session, Role.BRAIN)
    machine.writable[STATE] = "what was said"
    turn_id = (await boxed.tables.sessions.turns(session.id, limit=1))[0].id
    assert await boxed.boxes.keep_state(session, turn_id)
    await turn_over(boxed.tables, session, state_kept=True)
    machine.die()
    await settle(0.05)
    await boxed.brain(session)
    again = await boxed.machine(session, Role.BRAIN)
    assert again is not machine
    assert again.writable[STATE] == "what was said"
    assert await boxed.told(session) == [
        ("sandbox.created", "brain"),
        ("sandbox.lost", "brain"),
        ("sandbox.restored", "brain"),
        ("sandbox.created", "brain"),
    ]


async def test_a_machine_that_dies_this_moment_is_replaced(boxed: World) -> None:
    session = await admitted(boxed.tables, ORG)
    await boxed.brain(session)
    (await boxed.machine(session, Role.BRAIN)).die()
    await boxed.brain(session)
    assert len(boxed.brains()) == 1


async def test_a_state_that_is_gone_makes_no_brain_without_memory(boxed: World) -> None:
    session = await admitted(boxed.tables, ORG)
    await turn_over(boxed.tables, session, state_kept=True)
    await steer(boxed.tables, session)
    with pytest.raises(BrainNotReady, match="gone"):
        await boxed.brain(session)


async def test_nothing_to_keep_and_what_cannot_be_kept(boxed: World) -> None:
    session = await admitted(boxed.tables, ORG)
    await boxed.brain(session)
    assert await boxed.boxes.keep_state(session, "trn_1") is False
    boxed.programs.pack_code = 2
    with pytest.raises(BrainFault, match="packed"):
        await boxed.boxes.keep_state(session, "trn_1")
    (await boxed.machine(session, Role.BRAIN)).die()
    with pytest.raises(BrainFault):
        await boxed.boxes.keep_state(session, "trn_1")


async def test_the_states_of_the_last_two_turns_are_kept(boxed: World) -> None:
    session = await admitted(boxed.tables, ORG)
    await boxed.brain(session)
    machine = await boxed.machine(session, Role.BRAIN)
    turns: list[str] = []
    for number in range(4):
        machine.writable[STATE] = f"after {number}"
        turns.append((await boxed.tables.sessions.turns(session.id, limit=1))[0].id)
        assert await boxed.boxes.keep_state(await boxed.session(session), turns[-1])
        await turn_over(boxed.tables, session, state_kept=True)
        await steer(boxed.tables, session)
    assert await boxed.states.turns(session.id) == set(turns[-2:])


async def test_lost_hands_are_told_of_until_something_was_done_in_the_new_ones(boxed: World) -> None:
    session = await admitted(boxed.tables, ORG)
    await boxed.boxes.hands(session)
    (await boxed.machine(session, Role.HANDS)).die()
    await settle(0.05)
    assert (await boxed.boxes.hands(session)).lost_before
    hands = await boxed.boxes.hands(session)
    assert hands.lost_before
    await hands.run("ls", timeout_seconds=5)
    assert hands.lost_before
    assert not (await boxed.boxes.hands(session)).lost_before
    assert ("sandbox.lost", "hands") in await boxed.told(session)


async def test_both_rest_and_wake_as_they_were(boxed: World) -> None:
    session = await admitted(boxed.tables, ORG)
    await boxed.brain(session)
    await boxed.boxes.hands(session)
    await boxed.boxes.rest(session)
    await boxed.boxes.rest(session)
    await settle(0.05)
    assert boxed.node.host.machines == {}
    await boxed.brain(session)
    hands = await boxed.boxes.hands(session)
    assert not hands.lost_before
    assert len(boxed.programs.started) == 1
    slept = [each for each in await boxed.told(session) if each[0] == "sandbox.hibernated"]
    woken = [each for each in await boxed.told(session) if each[0] == "sandbox.woken"]
    assert len(slept) == len(woken) == 2


async def test_one_that_cannot_sleep_keeps_the_other_from_nothing(boxed: World) -> None:
    session = await admitted(boxed.tables, ORG)
    await boxed.brain(session)
    await boxed.boxes.hands(session)
    before = boxed.node.host.before
    boxed.node.host.before = on("save", SnapshotRefused("not now"), times=1)
    with pytest.raises(SnapshotRefused):
        await boxed.boxes.rest(session)
    boxed.node.host.before = before
    states = {(await boxed.sandbox(session, role)).state for role in Role}
    assert states == {SandboxState.RUNNING, SandboxState.HIBERNATED}


async def test_an_archived_session_gets_no_sandboxes_any_more(boxed: World) -> None:
    session = await admitted(boxed.tables, ORG)
    await boxed.brain(session)
    await boxed.boxes.hands(session)
    await boxed.states.put(session.id, (await boxed.tables.sessions.turns(session.id, limit=1))[0].id, b"x")
    await boxed.tables.sessions.archive(session.id, AT)
    await boxed.boxes.destroy(session)
    await settle(0.05)
    assert boxed.node.host.machines == {}
    assert await boxed.states.turns(session.id) == frozenset()
    with pytest.raises(SessionArchived):
        await boxed.brain(session)


async def test_sandboxes_of_a_session_that_goes_on_after_all_are_new_ones(boxed: World) -> None:
    session = await admitted(boxed.tables, ORG)
    for _ in range(3):
        await boxed.boxes.hands(session)
        await boxed.boxes.destroy(session)
    assert (await boxed.boxes.hands(session)).lost_before


async def test_a_crash_between_making_and_writing_down_leaks_nothing(tmp_path: Path) -> None:
    node = Node(tmp_path)
    async with world(tmp_path, node) as first:
        session = await admitted(first.tables, ORG)
        made = first.sandboxes._request(session, Role.HANDS, None)  # pyright: ignore[reportPrivateUsage]
        sandbox = (await first.process.lifecycle.create(ORG, made)).sandbox
        await first.boxes.hands(session)
        assert (await first.sandbox(session, Role.HANDS)).id == sandbox.id


async def test_the_sweep_ends_what_no_session_needs_and_nothing_else(boxed: World) -> None:
    session = await admitted(boxed.tables, ORG)
    await boxed.boxes.hands(session)
    looks_alike = await boxed.process.create(metadata={"oc.session": session.id, "oc.role": "hands"})
    orphan = await boxed.process.create(
        metadata={"oc.session": session.id, "oc.role": "hands"},
        idempotency_key=creation_key(session.id, Role.HANDS, looks_alike.id),
    )
    await boxed.upkeep.sweep()
    assert boxed.node.sandbox(orphan).state is SandboxState.RUNNING
    await boxed.clock.sleep(601)
    await boxed.upkeep.sweep()
    assert boxed.node.sandbox(orphan).state is SandboxState.STOPPED
    assert boxed.node.sandbox(looks_alike).state is SandboxState.RUNNING
    assert (await boxed.sandbox(session, Role.HANDS)).state is SandboxState.RUNNING
    await boxed.tables.sessions.archive(session.id, AT)
    await boxed.upkeep.sweep()
    assert (await boxed.sandbox(session, Role.HANDS)).state is SandboxState.STOPPED
