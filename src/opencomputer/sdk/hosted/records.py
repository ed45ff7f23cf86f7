"""Hosted agents and what belongs to them, as the server describes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from opencomputer.sdk.answers import Described
from opencomputer.sdk.durable.records import Record, part

ACTIVE_STATES: Final = frozenset({"queued", "running"})
# Servers have used two sets of words.
_STATES: Final[Mapping[str, str]] = {"success": "succeeded", "error": "failed", "cancelled": "canceled"}


@dataclass(frozen=True, kw_only=True)
class Operation(Record):
    """A change that goes on in the background, through `phase` after `phase`."""

    id: str
    agent_id: str = ""
    kind: str = ""
    target_type: str | None = None
    target_key: str | None = None
    phase: str = ""
    state: str = ""
    message: str | None = None
    error: object = None
    created_at: str | None = None
    updated_at: str | None = None

    @property
    def outcome(self) -> str:
        """Its state in one set of words: queued, running, succeeded, failed or canceled."""
        return _STATES.get(self.state, self.state)

    @property
    def active(self) -> bool:
        """Whether it still goes on."""
        return self.outcome in ACTIVE_STATES


@dataclass(frozen=True, kw_only=True)
class HostedChannel(Record):
    """A messaging platform that an agent is connected to."""

    name: str = ""
    bot_username: str | None = None
    connected_at: str | None = None


@dataclass(frozen=True, kw_only=True)
class HostedPackage(Record):
    """A capability that was added to an agent."""

    name: str = ""
    installed_at: str | None = None
    variant: str | None = None


@dataclass(frozen=True, kw_only=True)
class Entitlement(Record):
    """Whether a feature may be used: `reason` is ungated, or subscription_required."""

    feature: str = ""
    entitled: bool = False
    reason: str | None = None


@dataclass(frozen=True, kw_only=True)
class HostedAgent(Record):
    """An agent: `status` is starting, ready, degraded, error or unknown, where the server told details."""

    id: str
    display_name: str = ""
    core: str | None = None
    model: str | None = None
    channels: list[HostedChannel] = part(HostedChannel, many=True)
    packages: list[HostedPackage] = part(HostedPackage, many=True)
    secret_store: str | None = None
    config: Described | None = None
    created_at: str | None = None
    updated_at: str | None = None
    status: str | None = None
    instance_id: str | None = None
    instance_status: str | None = None
    sandbox_id: str | None = None
    core_status: Described | None = None
    channel_status: Described | None = None
    package_status: Described | None = None
    conditions: list[Described] = field(default_factory=list[Described])
    current_operation: Operation | None = part(Operation)
    last_error: Described | None = None


@dataclass(frozen=True, kw_only=True)
class HostedSecret(Record):
    """A secret of an agent, without its value."""

    key: str
    allowed_hosts: list[str] = field(default_factory=list[str])
    set_at: str | None = None


@dataclass(frozen=True, kw_only=True)
class ChannelChange(Record):
    """What became of a request to connect a channel; `operation` goes on in the background."""

    agent_id: str = ""
    channel: str = ""
    status: str = ""
    operation: Operation | None = part(Operation)


@dataclass(frozen=True, kw_only=True)
class PackageChange(Record):
    """What became of a request to install a package; `operation` goes on in the background."""

    agent_id: str = ""
    package: str = ""
    status: str = ""
    operation: Operation | None = part(Operation)


@dataclass(frozen=True, kw_only=True)
class HostedInstance(Record):
    """A lasting sandbox of an agent: `status` is creating, running, hibernated or error."""

    id: str
    agent_id: str = ""
    status: str = ""
    sandbox_id: str | None = None
    metadata: Described = field(default_factory=dict[str, object])
    created_at: str | None = None
    updated_at: str | None = None


@dataclass(frozen=True, kw_only=True)
class HostedSession(Record):
    """One piece of work in a sandbox of its own: `status` is creating, running, completed or failed."""

    id: str
    agent_id: str = ""
    status: str = ""
    input: object = None
    result: object = None
    preview_url: str | None = None
    metadata: Described = field(default_factory=dict[str, object])
    exit_code: int | None = None
    error: object = None
    created_at: str | None = None
    updated_at: str | None = None


@dataclass(frozen=True, kw_only=True)
class HostedResult(Record):
    """What a session left; `data` is None when it left nothing."""

    data: object = None
    completed_at: str | None = None


@dataclass(frozen=True, kw_only=True)
class HostedEvent(Record):
    """Something that happened to an agent: `type` is info, warning or error."""

    id: str
    agent_id: str = ""
    type: str = ""
    phase: str | None = None
    message: str = ""
    at: str | None = None


@dataclass(frozen=True, kw_only=True)
class HostedLogs(Record):
    """The end of the log of an agent's program."""

    agent_id: str = ""
    sandbox_id: str | None = None
    source: str | None = None
    lines: object = None
    content: str = ""


@dataclass(frozen=True, kw_only=True)
class ReplyPart(Record):
    """A piece of a reply: `type` is text (with `content`), error (with `message`) or done."""

    type: str
    content: str = ""
    conversation_id: str | None = None
    message: str | None = None
    code: str | None = None
