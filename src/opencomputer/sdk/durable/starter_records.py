"""What starts sessions of an agent by itself, as the server describes it: schedules, hooks and its URL."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from opencomputer.sdk.answers import Described
from opencomputer.sdk.durable.records import Record


@dataclass(frozen=True, kw_only=True)
class Schedule(Record):
    """Starts a session whenever `cron` says so, in the zone `tz` (None is UTC), with `input`.

    `state` is active, paused, or auto_paused after too many failures in a row. With `overlap` "skip" it waits
    for its last session to rest.
    """

    id: str
    agent_id: str = ""
    name: str = ""
    cron: str = ""
    tz: str | None = None
    input: str = ""
    overlap: str = "skip"
    state: str = ""
    next_fire_at: str | None = None
    last_fired_at: str | None = None
    consecutive_failures: int = 0
    last_error: str | None = None
    created_at: str = ""
    updated_at: str = ""


@dataclass(frozen=True, kw_only=True)
class ScheduleRun(Record):
    """One firing. `outcome` is enacted, skipped or failed; `scheduled_for` None: by hand."""

    id: str
    schedule_id: str = ""
    scheduled_for: str | None = None
    fired_at: str = ""
    outcome: str = ""
    session_id: str | None = None
    error: str | None = None


@dataclass(frozen=True, kw_only=True)
class Hook(Record):
    """A secret URL that starts sessions of one agent. `status` is active, expired or revoked."""

    id: str
    agent_id: str = ""
    name: str = ""
    status: str = ""
    secret_last4: str = ""
    revoked_reason: str | None = None
    expires_at: str | None = None
    created_at: str = ""


class NewHook(NamedTuple):
    """A hook that was just made, and its URL, which is not shown again."""

    hook: Hook
    hook_url: str


@dataclass(frozen=True, kw_only=True)
class Invocation(Record):
    """The receipt for an input that was given to an agent's URL: a session works on it.

    `session` has `id`, `status` and `head`; `client_token` is for `connect_session`; `replayed` says that the
    session had been started by an earlier request with the same key.
    """

    request_id: str = ""
    session: Described | None = None
    client_token: str | None = None
    links: Described | None = None
    replayed: bool = False

    @property
    def session_id(self) -> str:
        """The session's id."""
        return str((self.session or {}).get("id", ""))
