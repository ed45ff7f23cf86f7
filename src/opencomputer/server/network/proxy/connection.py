"""One connection of a machine: whose it is, what it may, what became of it."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from opencomputer.server.contracts.egress import Decision, EgressEvent, EgressLog, ResolvedNames
from opencomputer.server.domain.egress import EgressRules
from opencomputer.server.network.addresses import literal
from opencomputer.server.network.egress_table import EgressTableInMemory
from opencomputer.server.network.proxy.authority import Leaves
from opencomputer.server.network.proxy.heads import Refusal
from opencomputer.server.network.proxy.lookup import DialFailed, Dialled, Dialler
from opencomputer.server.network.proxy.streams import PlainStream

_STATUS_OF = {"blocked_address": 403, "timeout": 504}


@dataclass(frozen=True)
class ProxyConfig:
    """Limits of what machines, which are hostile, may make the node do.

    `moment_seconds` is how long a program may stay silent, on ports where servers speak first, before it
    is connected without having said to which host.
    """

    handshake_seconds: float = 10.0
    idle_seconds: float = 60.0
    moment_seconds: float = 0.25
    per_machine: int = 512
    in_all: int = 8192


@dataclass(frozen=True)
class Parts:
    """What all connections share."""

    config: ProxyConfig
    table: EgressTableInMemory
    log: EgressLog
    names: ResolvedNames
    leaves: Leaves
    dialler: Dialler
    upstream_tls: ssl.SSLContext
    now: Callable[[], datetime]


@dataclass(eq=False)
class Connection:
    """`host` is the name that counts, as soon as it is known; None before, and where there is none."""

    parts: Parts
    guest: PlainStream
    caller: str
    port: int = 0
    host: str | None = None
    protocol: Literal["tls", "http", "tcp"] = "tcp"
    intercepted: bool = False
    allowed: bool = False
    used: set[str] = field(default_factory=set[str])
    withheld: set[str] = field(default_factory=set[str])
    upstream: Dialled | None = None
    task: asyncio.Task[None] | None = None
    cut_reason: str | None = None

    def __post_init__(self) -> None:
        first = self.parts.table.rules(self.caller)
        self._first = first
        self._watch: asyncio.TimerHandle | None = None
        self._touched_at = 0.0
        self._told_out = self._told_in = 0

    def rules(self) -> EgressRules:
        """What its sandbox may do at this moment. Raises Refusal when it has come to its end."""
        rules = self.parts.table.rules(self.caller)
        if rules is None or self._first is None or rules.sandbox_id != self._first.sandbox_id:
            raise Refusal(407, "no_rules", "Nothing is known about this machine.")
        if not rules.network_enabled:
            raise Refusal(403, "network_off", "This sandbox has no network.")
        return rules

    def permit(self, host: str) -> EgressRules:
        """The rules, if they let this host be connected to. Raises Refusal."""
        rules = self.rules()
        address = literal(host)
        permitted = rules.permits(host) if address is None else self._permits_address(rules, address)
        if not permitted:
            reason = "allowlist" if address is None else "unnamed"
            raise Refusal(403, reason, f"The host {host} is not on this sandbox's egress allowlist.", host)
        return rules

    def name_of(self, address: str) -> str:
        """A permitted name that the machine was told this address for; without one the address itself."""
        rules = self.rules()
        names = self.parts.names.names(self.caller, address)
        return min((name for name in names if rules.permits(name)), default=address)

    async def dial(self, host: str, port: int) -> PlainStream:
        """Connect to a permitted host. Raises Refusal, with the words for whoever asked."""
        self.hang_up()
        try:
            dialled = await self.parts.dialler.dial(host, port)
        except DialFailed as failure:
            raise Refusal(
                _STATUS_OF.get(failure.reason, 502), failure.reason, str(failure), host
            ) from failure
        dialled.stream.touched = self.touch
        self.upstream = dialled
        self.permit(host)
        return dialled.stream

    def hang_up(self) -> None:
        if self.upstream is not None:
            self.upstream.stream.close()

    def still_permitted(self) -> bool:
        try:
            self.rules()
            if self.host is not None:
                self.permit(self.host)
        except Refusal:
            return False
        return True

    def watch(self) -> None:
        """From now on, be cut when no byte has come from either side for too long."""
        self.guest.touched = self.touch
        self.touch()
        self._watch_on()

    def touch(self) -> None:
        self._touched_at = asyncio.get_running_loop().time()

    def cut(self, reason: str) -> None:
        """End it at once. What the task does then only cleans up."""
        self.cut_reason = self.cut_reason or reason
        self.guest.abort()
        if self.upstream is not None:
            self.upstream.stream.abort()
        if self.task is not None:
            self.task.cancel()

    def close(self) -> None:
        if self._watch is not None:
            self._watch.cancel()
        for stream in (self.guest, self.upstream.stream if self.upstream is not None else None):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
        if self.allowed and self.cut_reason not in (None, "idle"):
            self.tell("denied", self.cut_reason)
        elif self.allowed:
            self.tell("allowed")

    def denied(self, refusal: Refusal) -> None:
        if refusal.reason != "bad_request":
            self.tell("denied", refusal.reason, refusal.host)

    def tell(self, decision: Decision, reason: str | None = None, host: str | None = None) -> None:
        """Take a decision down, with the bytes since the last time."""
        if self._first is None:
            return
        sent, received = self.guest.received_bytes, self.guest.sent_bytes
        event = EgressEvent(
            at=self.parts.now(),
            org_id=self._first.org_id,
            sandbox_id=self._first.sandbox_id,
            protocol=self.protocol,
            host=host or self.host or "",
            port=self.port,
            decision=decision,
            reason=reason,
            address=self.upstream.address if self.upstream is not None and decision == "allowed" else None,
            intercepted=self.intercepted,
            secrets=tuple(sorted(self.used)),
            withheld=tuple(sorted(self.withheld)),
            bytes_out=sent - self._told_out,
            bytes_in=received - self._told_in,
        )
        self._told_out, self._told_in = sent, received
        self.parts.log.record(event)

    def _permits_address(self, rules: EgressRules, address: str) -> bool:
        return rules.permits(address) or self.name_of(address) != address

    def _watch_on(self) -> None:
        loop = asyncio.get_running_loop()
        due = self._touched_at + self.parts.config.idle_seconds
        if loop.time() >= due:
            self.cut("idle")
        else:
            self._watch = loop.call_at(due, self._watch_on)
