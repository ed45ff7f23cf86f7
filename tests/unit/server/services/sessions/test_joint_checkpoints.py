"""Going back to the end of a turn: files and transcript together, in the session or in a fork."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from opencomputer.server.domain.errors import Conflict, IdempotencyMismatch, NotFound
from opencomputer.server.domain.sandbox import SandboxState
from opencomputer.server.domain.sessions.errors import SessionArchived, TurnNotKept
from opencomputer.server.domain.sessions.events import EventFilter
from opencomputer.server.domain.sessions.session import Origin, Session, SessionStatus, Turn
from opencomputer.server.services.sessions.boxes_sandboxes import Role
from opencomputer.server.services.sessions.joint_checkpoints import (
    CheckpointParts,
    JointCheckpoints,
    NewFork,
)
from opencomputer.wire.ids import OrgId, TurnId
from tests.support.sessions import AT, admitted, begun, steer, turn_over
from tests.unit.server.services.harness import ORG
from tests.unit.server.services.sessions.boxes_world import STATE, World, world

pytestmark = pytest.mark.anyio

WORK = "work"


@pytest.fixture
def anyio_backend() -> str:
    """Real time: that of the database passes whatever the loop's does."""
    return "asyncio"


@pytest.fixture
async def boxed(tmp_path: Path, anyio_backend: object) -> AsyncGenerator[World]:
    async with world(tmp_path) as made:
        yield made


def checkpoints_of(boxed: World) -> JointCheckpoints:
    process = boxed.process
    return JointCheckpoints(
        CheckpointParts(
            boxed.tables.sessions,
            boxed.states,
            boxed.boxes,
            process.forks,
            process.lifecycle,
            process.clock,
        )
    )


async def turn_of(boxed: World, session: Session, word: str) -> Turn:
    """A turn that leaves this word in the files and in the transcript."""
    await boxed.brain(session)
    await boxed.boxes.hands(session)
    (await boxed.machine(session, Role.BRAIN)).writable[STATE] = word
    (await boxed.machine(session, Role.HANDS)).writable[WORK] = word
    current = await boxed.session(session)
    assert current.last_turn is not None
    kept = await boxed.boxes.keep_state(current, current.last_turn.id)
    checkpoint = await boxed.boxes.checkpoint(current, current.last_turn.id)
    return await turn_over(boxed.tables, session, state_kept=kept, checkpoint=checkpoint)


async def two_turns(boxed: World) -> tuple[Session, Turn, Turn]:
    session = await admitted(boxed.tables, ORG, checkpoints_kept=2)
    first = await turn_of(boxed, session, "one")
    await steer(boxed.tables, session)
    second = await turn_of(boxed, session, "two")
    return session, first, second


async def transcript(boxed: World, session: Session) -> str:
    """What the engine of the next turn knows."""
    await boxed.brain(session)
    return (await boxed.machine(session, Role.BRAIN)).writable[STATE]


async def goes_on_from(boxed: World, session: Session) -> str | None:
    """The checkpoint that the hands of the next turn come from."""
    await boxed.boxes.hands(session)
    return (await boxed.sandbox(session, Role.HANDS)).from_checkpoint


async def kept_of(boxed: World, session: Session, turn: Turn) -> str:
    found = await boxed.tables.sessions.turn(session.id, turn.id)
    assert found is not None
    assert found.checkpoint is not None
    return found.checkpoint


async def test_a_rewound_session_goes_on_from_the_end_of_the_turn(boxed: World) -> None:
    session, first, second = await two_turns(boxed)
    before = (await boxed.session(session)).boxes
    rewound = await checkpoints_of(boxed).rewind(ORG, session.id, first.id)
    assert (rewound.status, rewound.resume_from) == (SessionStatus.IDLE, first.id)
    assert await transcript(boxed, session) == "one"
    assert await goes_on_from(boxed, session) == await kept_of(boxed, session, first)
    assert before.hands is not None
    assert boxed.node.tables.sandboxes[before.hands].state is SandboxState.STOPPED
    log = await boxed.tables.log.read(session.id, EventFilter(type="session.*"), after=0, limit=10)
    assert [(each.type, each.body["turn_id"]) for each in log] == [("session.rewound", first.id)]
    # And forth again: nothing that was kept is lost by going back.
    await checkpoints_of(boxed).rewind(ORG, session.id, second.id)
    assert await transcript(boxed, session) == "two"
    assert await goes_on_from(boxed, session) == await kept_of(boxed, session, second)


async def test_a_fork_goes_on_from_the_turn_and_leaves_its_origin_alone(boxed: World) -> None:
    session, first, _ = await two_turns(boxed)
    made = await checkpoints_of(boxed).fork(ORG, session.id, NewFork(first.id, "h"))
    fork = made.session
    assert not made.replayed
    assert (fork.status, fork.head, fork.origin) == (SessionStatus.IDLE, 1, Origin(session.id, first.id))
    assert (fork.agent, fork.last_turn) == ((await boxed.session(session)).agent, None)
    [event] = await boxed.tables.log.read(fork.id, EventFilter(), after=0, limit=10)
    assert (event.type, event.body["session_id"], event.body["turn_id"]) == (
        "session.forked",
        session.id,
        first.id,
    )
    assert await transcript(boxed, fork) == "one"
    assert await goes_on_from(boxed, fork) == await kept_of(boxed, session, first)
    assert (await boxed.sandbox(fork, Role.HANDS)).metadata == {"oc.session": fork.id, "oc.role": "hands"}
    assert await transcript(boxed, session) == "two"
    assert (await boxed.machine(session, Role.HANDS)).writable[WORK] == "two"
    await steer(boxed.tables, fork)
    assert (await boxed.session(fork)).status is SessionStatus.QUEUED


async def test_a_fork_without_a_turn_is_of_the_newest_that_is_kept(boxed: World) -> None:
    session, _, second = await two_turns(boxed)
    fork = (await checkpoints_of(boxed).fork(ORG, session.id, NewFork(None, "h"))).session
    assert fork.origin == Origin(session.id, second.id)
    assert await transcript(boxed, fork) == "two"


async def test_the_same_request_is_one_fork(boxed: World) -> None:
    session, first, _ = await two_turns(boxed)
    checkpoints = checkpoints_of(boxed)
    made = await checkpoints.fork(ORG, session.id, NewFork(first.id, "h", "key"))
    again = await checkpoints.fork(ORG, session.id, NewFork(first.id, "h", "key"))
    assert (again.session.id, again.replayed) == (made.session.id, True)
    with pytest.raises(IdempotencyMismatch):
        await checkpoints.fork(ORG, session.id, NewFork(first.id, "other", "key"))


async def test_only_what_is_kept_can_be_gone_back_to(boxed: World) -> None:
    session = await admitted(boxed.tables, ORG)
    turn = await turn_over(boxed.tables, session)
    checkpoints = checkpoints_of(boxed)
    for wanted in (turn.id, None):
        with pytest.raises(TurnNotKept):
            await checkpoints.fork(ORG, session.id, NewFork(wanted, "h"))
    with pytest.raises(TurnNotKept):
        await checkpoints.rewind(ORG, session.id, turn.id)
    with pytest.raises(NotFound):
        await checkpoints.rewind(ORG, session.id, TurnId("trn_nothing"))
    other = await admitted(boxed.tables, ORG)
    assert other.last_turn is not None
    with pytest.raises(NotFound):
        await checkpoints.fork(ORG, session.id, NewFork(other.last_turn.id, "h"))


async def test_a_session_that_works_or_is_closed_is_not_rewound(boxed: World) -> None:
    session, first, _ = await two_turns(boxed)
    checkpoints = checkpoints_of(boxed)
    there = len(boxed.node.tables.sandboxes)
    await steer(boxed.tables, session)
    with pytest.raises(Conflict):
        await checkpoints.rewind(ORG, session.id, first.id)
    await begun(boxed.tables, session)
    with pytest.raises(Conflict):
        await checkpoints.rewind(ORG, session.id, first.id)
    await boxed.tables.sessions.archive(session.id, AT)
    with pytest.raises(SessionArchived):
        await checkpoints.rewind(ORG, session.id, first.id)
    assert len(boxed.node.tables.sandboxes) == there


async def test_anothers_session_is_as_one_that_is_not_there(boxed: World) -> None:
    session, first, _ = await two_turns(boxed)
    stranger = OrgId("11111111-0000-0000-0000-000000000000")
    with pytest.raises(NotFound):
        await checkpoints_of(boxed).rewind(stranger, session.id, first.id)
    with pytest.raises(NotFound):
        await checkpoints_of(boxed).fork(stranger, session.id, NewFork(first.id, "h"))
