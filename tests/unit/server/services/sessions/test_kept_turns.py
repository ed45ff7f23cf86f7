"""What is kept of turns: as much as their agent wants, and turns that are not kept any more say so."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from opencomputer.server.domain.errors import SnapshotRefused
from opencomputer.server.domain.sessions.session import Session, Turn
from opencomputer.server.domain.snapshot import SnapshotKind
from opencomputer.server.services.sessions.boxes_sandboxes import Role
from opencomputer.wire.ids import SnapshotId
from tests.support.sessions import admitted, steer, turn_over
from tests.unit.server.services.harness import ORG
from tests.unit.server.services.sessions.boxes_world import STATE, World, world

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def boxed(tmp_path: Path, anyio_backend: object) -> AsyncGenerator[World]:
    async with world(tmp_path) as made:
        yield made


async def worked(boxed: World, session: Session, what: str) -> Turn:
    """A turn that leaves something in hands and brain, from begin to end as the engine does it."""
    turn = (await boxed.tables.sessions.turns(session.id, limit=1))[0]
    current = await boxed.session(session)
    await boxed.boxes.brain(current, boxed.runtime)
    await boxed.boxes.hands(current)
    (await boxed.machine(session, Role.BRAIN)).writable[STATE] = f"brain {what}"
    (await boxed.machine(session, Role.HANDS)).writable["file"] = f"hands {what}"
    kept = await boxed.boxes.keep_state(current, turn.id)
    checkpoint = await boxed.boxes.checkpoint(current, turn.id)
    await turn_over(boxed.tables, session, state_kept=kept, checkpoint=checkpoint)
    return turn


async def two_turns(boxed: World, kept: int = 2) -> tuple[Session, Turn, Turn]:
    session = await admitted(boxed.tables, ORG, checkpoints_kept=kept)
    first = await worked(boxed, session, "one")
    await steer(boxed.tables, session)
    return session, first, await worked(boxed, session, "two")


async def test_only_the_last_checkpoints_are_kept_and_turns_say_so(boxed: World) -> None:
    session, first, second = await two_turns(boxed, kept=1)
    turns = {turn.id: turn for turn in await boxed.tables.sessions.turns(session.id, limit=10)}
    assert turns[first.id].checkpoint is None
    assert turns[second.id].checkpoint is not None
    assert len(boxed.node.tables.snapshots) == 1


async def test_states_that_checkpoints_need_outlive_the_last_two(boxed: World) -> None:
    session, first, _ = await two_turns(boxed, kept=2)
    await steer(boxed.tables, session)
    await worked(boxed, session, "three")
    await steer(boxed.tables, session)
    await worked(boxed, session, "four")
    assert first.id not in await boxed.states.turns(session.id)
    assert len(await boxed.states.turns(session.id)) == 3
    stored = await boxed.tables.sessions.turn(session.id, first.id)
    assert stored is not None
    assert not stored.state_kept


async def test_hands_whose_memory_cannot_be_saved_have_their_files_kept(boxed: World) -> None:
    session = await admitted(boxed.tables, ORG, checkpoints_kept=1)
    await boxed.boxes.hands(session)
    refused = [SnapshotRefused("not with this process")]
    install = boxed.node.host.before

    async def before(step: str, machine_id: object) -> None:
        await install(step, machine_id)  # pyright: ignore[reportArgumentType]
        if step == "save" and refused:
            raise refused.pop()

    boxed.node.host.before = before
    checkpoint = await boxed.boxes.checkpoint(session, "trn_1")
    assert checkpoint is not None
    assert boxed.node.tables.snapshots[SnapshotId(checkpoint)].kind is SnapshotKind.DISK_ONLY


async def test_an_attempt_that_is_repeated_takes_the_place_of_its_checkpoint(boxed: World) -> None:
    session = await admitted(boxed.tables, ORG, checkpoints_kept=1)
    first = await boxed.boxes.checkpoint(session, "trn_1")
    again = await boxed.boxes.checkpoint(session, "trn_1")
    assert first != again
    assert set(boxed.node.tables.snapshots) == {again}
