"""Schedules, hooks and the URL of an agent (agent-sessions.md sections 3.2, 3.3, 3.19)."""

from __future__ import annotations

from typing import Any, Literal

from opencomputer.wire.model import Moment, PlainModel, PlainRequest

OverlapWord = Literal["skip", "allow"]


class CreateSchedule(PlainRequest):
    """Starts a session with `input` whenever `cron` says so, in the zone `tz`; null is UTC."""

    name: str
    cron: str
    tz: str | None = None
    input: str
    overlap: OverlapWord = "skip"


class UpdateSchedule(PlainRequest):
    """What is not named stays. The name cannot be changed."""

    name: Any = None
    cron: str | None = None
    tz: str | None = None
    input: str | None = None
    overlap: OverlapWord | None = None
    paused: bool | None = None


class ScheduleView(PlainModel):
    """`next_fire_at` counts while it is active; `last_fired_at` is when it last started a session."""

    id: str
    agent_id: str
    name: str
    cron: str
    tz: str | None
    input: str
    overlap: str
    state: str
    next_fire_at: Moment
    last_fired_at: Moment | None
    consecutive_failures: int
    last_error: str | None
    created_at: Moment
    updated_at: Moment


class ScheduleAnswer(PlainModel):
    schedule: ScheduleView


class SchedulesView(PlainModel):
    schedules: list[ScheduleView]


class ScheduleRunView(PlainModel):
    """`scheduled_for` null: by hand. `error` says why it failed, or was skipped."""

    id: str
    schedule_id: str
    scheduled_for: Moment | None
    fired_at: Moment
    outcome: str
    session_id: str | None
    error: str | None


class ScheduleRunAnswer(PlainModel):
    run: ScheduleRunView


class ScheduleRunsView(PlainModel):
    runs: list[ScheduleRunView]
    next_cursor: str | None


class CreateHook(PlainRequest):
    name: str
    expires_at: str | None = None


class HookView(PlainModel):
    """Never its token."""

    id: str
    agent_id: str
    name: str
    status: str
    secret_last4: str
    revoked_reason: str | None
    expires_at: Moment | None
    created_at: Moment


class NewHookView(PlainModel):
    """`hook_url` is not shown again."""

    hook: HookView
    hook_url: str


class HooksView(PlainModel):
    data: list[HookView]
    next_cursor: str | None


class StartedSession(PlainModel):
    id: str
    status: str


class HookReceipt(PlainModel):
    """`replayed`: an earlier request with the same key has started this session."""

    request_id: str
    session: StartedSession
    replayed: bool


class InvokedSession(StartedSession):
    head: int


class SessionLinks(PlainModel):
    events: str
    messages: str


class InvocationReceipt(PlainModel):
    """As above, with what it takes to follow the session."""

    request_id: str
    session: InvokedSession
    client_token: str
    links: SessionLinks
    replayed: bool
