"""What starts sessions of an agent by itself: `oc.agents.schedules`, `oc.agents.hooks`, and its URL."""

from __future__ import annotations

from opencomputer.sdk.answers import required_text
from opencomputer.sdk.durable.bodies import NOT_GIVEN, NotGiven, given, new_key, set_members
from opencomputer.sdk.durable.connection import Connection, Request, reading
from opencomputer.sdk.durable.records import Page, inner, page_of
from opencomputer.sdk.durable.starter_records import Hook, Invocation, NewHook, Schedule, ScheduleRun
from opencomputer.sdk.paths import path_of


class Schedules:
    """The schedules of agents. Wherever a schedule is named, its id is meant."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def create(
        self,
        agent: str,
        name: str,
        cron: str,
        input: str,
        tz: str | None = None,
        overlap: str | None = None,
    ) -> Schedule:
        """Start a session with `input` whenever `cron` says so, five fields in the zone `tz`, by default UTC.

        `overlap` is skip, the default, or allow. Raises `ConflictError` when the agent has one of this name.
        """
        body = set_members(name=name, cron=cron, input=input, tz=tz, overlap=overlap)
        return await self._schedule(Request("POST", path_of("agents", agent, "schedules"), json=body))

    async def list(self, agent: str) -> Page[Schedule]:
        """Oldest first."""
        answer = await self._connection.json(reading(path_of("agents", agent, "schedules")))
        return page_of(answer, Schedule.read, name="schedules")

    async def get(self, agent: str, schedule: str) -> Schedule:
        """One of them. Raises `NotFoundError`."""
        return await self._schedule(reading(path_of("agents", agent, "schedules", schedule)))

    async def update(
        self,
        agent: str,
        schedule: str,
        *,
        cron: str | None = None,
        tz: str | NotGiven | None = NOT_GIVEN,
        input: str | None = None,
        overlap: str | None = None,
        paused: bool | None = None,
    ) -> Schedule:
        """Change what is given; `tz=None` goes back to UTC. Missed times are never made up."""
        body = set_members(cron=cron, input=input, overlap=overlap, paused=paused) | given(tz=tz)
        path = path_of("agents", agent, "schedules", schedule)
        return await self._schedule(Request("PATCH", path, json=body))

    async def delete(self, agent: str, schedule: str) -> None:
        """Start nothing by it any more. Its runs are kept."""
        await self._connection.send(Request("DELETE", path_of("agents", agent, "schedules", schedule)))

    async def fire(self, agent: str, schedule: str) -> ScheduleRun:
        """Start a session now, in whatever state the schedule is; its next time stays. Look at `outcome`."""
        path = path_of("agents", agent, "schedules", schedule, "fire")
        return ScheduleRun.read(inner(await self._connection.object(Request("POST", path)), "run"))

    async def runs(
        self, agent: str, schedule: str, *, limit: int | None = None, cursor: str | None = None
    ) -> Page[ScheduleRun]:
        """Newest first."""
        path = path_of("agents", agent, "schedules", schedule, "runs")
        answer = await self._connection.object(reading(path, limit=limit, cursor=cursor))
        return page_of(
            answer,
            ScheduleRun.read,
            lambda after: self.runs(agent, schedule, limit=limit, cursor=after),
            name="runs",
        )

    async def _schedule(self, request: Request) -> Schedule:
        return Schedule.read(inner(await self._connection.object(request), "schedule"))


class Hooks:
    """The hooks of agents: secret URLs at which anybody who knows one may start sessions."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def create(self, agent: str, name: str, *, expires_at: str | None = None) -> NewHook:
        """A new one, and its URL, which is shown this once. `expires_at` is RFC 3339.

        Never sent twice: a hook whose URL got lost must be deleted.
        """
        body = set_members(name=name, expires_at=expires_at)
        path = path_of("agents", agent, "hooks")
        answer = await self._connection.object(Request("POST", path, json=body))
        return NewHook(Hook.read(answer.get("hook")), required_text(answer, "hook_url"))

    async def list(
        self,
        agent: str,
        *,
        include_revoked: bool | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> Page[Hook]:
        """Newest first."""

        async def page(cursor: str | None) -> Page[Hook]:
            path = path_of("agents", agent, "hooks")
            request = reading(path, include_revoked=include_revoked, limit=limit, cursor=cursor)
            return page_of(await self._connection.object(request), Hook.read, page)

        return await page(cursor)

    async def get(self, agent: str, hook: str) -> Hook:
        """One of them. Raises `NotFoundError`."""
        return Hook.read(await self._connection.object(reading(path_of("agents", agent, "hooks", hook))))

    async def delete(self, agent: str, hook: str) -> None:
        """Revoke it, for ever. Sessions that it started go on."""
        await self._connection.send(Request("DELETE", path_of("agents", agent, "hooks", hook)))


async def invoke(
    connection: Connection, url: str, payload: object, idempotency_key: str | None
) -> Invocation:
    """Give an agent's URL an input; see `Agents.invoke`."""
    key = idempotency_key or new_key()
    request = Request(
        "POST",
        f"{url.rstrip('/')}/",
        repeatable=True,
        json=payload,
        sends_null=True,
        headers={"Idempotency-Key": key},
    )
    return Invocation.read(await connection.object(request))
