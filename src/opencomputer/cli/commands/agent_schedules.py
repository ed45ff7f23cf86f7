"""`oc agent schedules` and `schedule …`: sessions that start by the clock."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from enum import StrEnum
from typing import TYPE_CHECKING, TypeVar

import typer

from opencomputer.cli import durable_targets as targets
from opencomputer.cli import text
from opencomputer.cli.commands.durable_agent import AGENT
from opencomputer.cli.options import named, optional
from opencomputer.cli.session import session_of

if TYPE_CHECKING:
    from opencomputer.cli.session import Session
    from opencomputer.sdk.durable.client import OpenComputer
    from opencomputer.sdk.durable.starter_records import Schedule
    from opencomputer.sdk.durable.starters import Schedules

T = TypeVar("T")

_SCHEDULE = named("SCHEDULE", "Its name or id.")
_PREFIX = "sch_"
_HEADERS = ("NAME", "CRON", "TZ", "STATE", "NEXT_FIRE", "FAILS")
_RUN_HEADERS = ("OUTCOME", "SCHEDULED_FOR", "FIRED", "SESSION", "ERROR")


class Overlap(StrEnum):
    """What to do when the last session still works."""

    SKIP = "skip"
    ALLOW = "allow"


def list_schedules(context: typer.Context, agent: str = AGENT) -> None:
    """List an agent's schedules."""
    session = session_of(context)
    reference = targets.agent_reference(agent)

    async def work(durable: OpenComputer) -> list[Schedule]:
        owner = await targets.agent_id_of(durable, reference)
        return list(await durable.agents.schedules.list(owner))

    found = session.run_durable(work)
    session.output.table([each.raw for each in found], _HEADERS, map(_row, found), "No schedules.")


def create(
    context: typer.Context,
    name: str = named("NAME", "What it is called."),
    cron: str = typer.Option(..., "--cron", help="When, as in '0 9 * * 1-5'.", show_default=False),
    input: str = typer.Option(..., "--input", metavar="TEXT|-", help="What it is to do.", show_default=False),
    tz: str = optional("--tz", "Of which time zone; UTC by default.", "ZONE"),
    overlap: Overlap = typer.Option(Overlap.SKIP, "--overlap", help="If the last session still works."),
    agent: str = AGENT,
) -> None:
    """Start a session whenever the clock says so."""
    session = session_of(context)
    reference, said = targets.agent_reference(agent), targets.content(input)

    async def work(durable: OpenComputer) -> Schedule:
        owner = await targets.agent_id_of(durable, reference)
        return await durable.agents.schedules.create(owner, name, cron, said, tz or None, overlap.value)

    made = session.run_durable(work)
    session.output.success(made.raw, f"{name} fires next at {made.next_fire_at or '-'}")


def get(context: typer.Context, schedule: str = _SCHEDULE, agent: str = AGENT) -> None:
    """Show a schedule."""
    session = session_of(context)
    found = _about(session, agent, schedule, lambda schedules, owner, id: schedules.get(owner, id))
    pairs = [
        *(("ID", found.id), ("Name", found.name), ("Cron", found.cron), ("Time zone", found.tz or "UTC")),
        *(("Input", found.input), ("Overlap", found.overlap), ("State", found.state)),
        *(("Next", found.next_fire_at or "-"), ("Last", found.last_fired_at or "never")),
        ("Failures", found.consecutive_failures),
    ]
    if found.last_error:
        pairs.append(("Error", found.last_error))
    session.output.result(found.raw, text.details(pairs))


def pause(context: typer.Context, schedule: str = _SCHEDULE, agent: str = AGENT) -> None:
    """Let a schedule start nothing until it is resumed."""
    _set_paused(context, schedule, agent, paused=True)


def resume(context: typer.Context, schedule: str = _SCHEDULE, agent: str = AGENT) -> None:
    """Let a schedule go on. What it missed is not made up."""
    _set_paused(context, schedule, agent, paused=False)


def delete(context: typer.Context, schedule: str = _SCHEDULE, agent: str = AGENT) -> None:
    """Delete a schedule. What it started stays."""
    session = session_of(context)
    _about(session, agent, schedule, lambda schedules, owner, id: schedules.delete(owner, id))
    session.output.success({"name": schedule, "deleted": True}, f"{schedule} deleted")


def fire(context: typer.Context, schedule: str = _SCHEDULE, agent: str = AGENT) -> None:
    """Start a schedule's session now."""
    session = session_of(context)
    run = _about(session, agent, schedule, lambda schedules, owner, id: schedules.fire(owner, id))
    session.output.success(run.raw, f"{run.outcome}: {run.session_id or run.error or 'nothing was started'}")


def runs(
    context: typer.Context,
    schedule: str = _SCHEDULE,
    limit: int = typer.Option(20, "--limit", min=1, max=200, help="At most so many."),
    agent: str = AGENT,
) -> None:
    """List when a schedule fired, newest first."""
    session = session_of(context)
    found = _about(
        session, agent, schedule, lambda schedules, owner, id: schedules.runs(owner, id, limit=limit)
    )
    rows = [
        [each.outcome, each.scheduled_for or "-", each.fired_at, each.session_id or "-", each.error or "-"]
        for each in found
    ]
    session.output.table([each.raw for each in found], _RUN_HEADERS, rows, "No runs.")


def add_commands(group: typer.Typer) -> None:
    """Add these to the group."""
    group.command("schedules")(list_schedules)
    schedule = typer.Typer(help="Sessions by the clock: create, get, pause, resume, delete, fire, runs.")
    schedule.command("create")(create)
    schedule.command("list", hidden=True)(list_schedules)
    schedule.command("get")(get)
    schedule.command("pause")(pause)
    schedule.command("resume")(resume)
    schedule.command("delete")(delete)
    schedule.command("rm", hidden=True)(delete)
    schedule.command("fire")(fire)
    schedule.command("runs")(runs)
    group.add_typer(schedule, name="schedule")


def _about(
    session: Session, agent: str, named: str, work: Callable[[Schedules, str, str], Awaitable[T]]
) -> T:
    """Do something with one schedule, by its name or id."""
    reference = targets.agent_reference(agent)

    async def found(durable: OpenComputer) -> T:
        owner = await targets.agent_id_of(durable, reference)
        schedules = durable.agents.schedules
        if named.startswith(_PREFIX):
            return await work(schedules, owner, named)
        ids = [each.id for each in await schedules.list(owner) if each.name == named]
        return await work(schedules, owner, targets.only_one(ids, named, "schedules"))

    return session.run_durable(found)


def _set_paused(context: typer.Context, schedule: str, agent: str, *, paused: bool) -> None:
    session = session_of(context)
    changed = _about(
        session, agent, schedule, lambda schedules, owner, id: schedules.update(owner, id, paused=paused)
    )
    session.output.success(changed.raw, f"{schedule} is {changed.state}")


def _row(schedule: Schedule) -> list[object]:
    return [
        *(schedule.name, schedule.cron, schedule.tz or "UTC", schedule.state),
        *(schedule.next_fire_at or "-", schedule.consecutive_failures),
    ]
