# Generated from src/opencomputer/sdk/durable/starters.py by scripts/generate_blocking.py
"""The blocking twins of `opencomputer.sdk.durable.starters`; see there."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from opencomputer.blocking.support.page import Page
from opencomputer.blocking.support.twin import Twin
from opencomputer.sdk.durable.bodies import NOT_GIVEN

if TYPE_CHECKING:
    from opencomputer.sdk.durable import starters as sdk
    from opencomputer.sdk.durable.bodies import NotGiven
    from opencomputer.sdk.durable.starter_records import Hook, NewHook, Schedule, ScheduleRun


class Schedules(Twin):
    """The schedules of agents. Wherever a schedule is named, its id is meant."""

    def create(
        self, agent: str, name: str, cron: str, input: str, tz: str | None = None, overlap: str | None = None
    ) -> Schedule:
        """Start a session with `input` whenever `cron` says so, five fields in the zone `tz`, by default UTC.

        `overlap` is skip, the default, or allow. Raises `ConflictError` when the agent has one of this name.
        """
        return self._run(self._original.create(agent, name, cron, input, tz, overlap))

    def list(self, agent: str) -> Page[Schedule]:
        """Oldest first."""
        return Page(self._run(self._original.list(agent)))

    def get(self, agent: str, schedule: str) -> Schedule:
        """One of them. Raises `NotFoundError`."""
        return self._run(self._original.get(agent, schedule))

    def update(
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
        return self._run(
            self._original.update(
                agent, schedule, cron=cron, tz=tz, input=input, overlap=overlap, paused=paused
            )
        )

    def delete(self, agent: str, schedule: str) -> None:
        """Start nothing by it any more. Its runs are kept."""
        self._run(self._original.delete(agent, schedule))

    def fire(self, agent: str, schedule: str) -> ScheduleRun:
        """Start a session now, in whatever state the schedule is; its next time stays. Look at `outcome`."""
        return self._run(self._original.fire(agent, schedule))

    def runs(
        self, agent: str, schedule: str, *, limit: int | None = None, cursor: str | None = None
    ) -> Page[ScheduleRun]:
        """Newest first."""
        return Page(self._run(self._original.runs(agent, schedule, limit=limit, cursor=cursor)))

    @property
    def _original(self) -> sdk.Schedules:
        return cast("sdk.Schedules", self._wrapped)


class Hooks(Twin):
    """The hooks of agents: secret URLs at which anybody who knows one may start sessions."""

    def create(self, agent: str, name: str, *, expires_at: str | None = None) -> NewHook:
        """A new one, and its URL, which is shown this once. `expires_at` is RFC 3339.

        Never sent twice: a hook whose URL got lost must be deleted.
        """
        return self._run(self._original.create(agent, name, expires_at=expires_at))

    def list(
        self,
        agent: str,
        *,
        include_revoked: bool | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> Page[Hook]:
        """Newest first."""
        return Page(
            self._run(self._original.list(agent, include_revoked=include_revoked, limit=limit, cursor=cursor))
        )

    def get(self, agent: str, hook: str) -> Hook:
        """One of them. Raises `NotFoundError`."""
        return self._run(self._original.get(agent, hook))

    def delete(self, agent: str, hook: str) -> None:
        """Revoke it, for ever. Sessions that it started go on."""
        self._run(self._original.delete(agent, hook))

    @property
    def _original(self) -> sdk.Hooks:
        return cast("sdk.Hooks", self._wrapped)
