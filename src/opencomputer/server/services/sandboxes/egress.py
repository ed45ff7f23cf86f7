"""What the network is told of each sandbox: hosts it may reach, and secrets to put in for its tokens.

Values are in memory only, in the rules that the gate gets. They are looked up when a machine comes to a
sandbox, and again whenever something about them changes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import structlog

from opencomputer.server.contracts.driver import MachineId
from opencomputer.server.contracts.egress import EgressGate
from opencomputer.server.contracts.machine import Machine
from opencomputer.server.contracts.secrets import HoldingRows, Keyring
from opencomputer.server.domain.egress import EgressMode, EgressRules, SealedSecret, proxy_environment
from opencomputer.server.domain.errors import OpenComputerError, SecretUnreadable
from opencomputer.server.domain.sandbox import Sandbox, SandboxState
from opencomputer.server.domain.secrets import Holding, SecretPlace, united
from opencomputer.wire.ids import SandboxId

_log = structlog.get_logger(__name__)

_STRICTNESS = (EgressMode.OPEN, EgressMode.WATCHED, EgressMode.RESTRICTED, EgressMode.CLOSED)


@dataclass(frozen=True)
class Refreshed:
    """How many running sandboxes use what was changed from now on, and how many could not be told."""

    count: int = 0
    errors: int = 0


@dataclass(frozen=True)
class Surroundings:
    """What a machine has to know for its way out. `environment` comes below the user's own variables."""

    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    trust: str = ""


@dataclass(frozen=True)
class AllowedHosts:
    """What a sandbox may reach, as its owner sees it. Secrets that may go anywhere are not in `by_secret`."""

    stores: tuple[str, ...]
    allowlist: tuple[str, ...]
    by_secret: Mapping[str, tuple[str, ...]]


@dataclass(eq=False)
class _Admitted:
    """A machine with rules. `mode` is None until it is known what the packet filter lets through."""

    machine: Machine
    address: str
    sandbox: Sandbox
    mode: EgressMode | None = None
    sealed: frozenset[str] = frozenset()
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


@dataclass(frozen=True)
class _Found:
    rules: EgressRules
    holding: Holding
    unreadable: Sequence[str]


class Egress:
    """Keeps the gate's rules in step with stores and sandboxes."""

    def __init__(self, gate: EgressGate, holdings: HoldingRows, keyring: Keyring) -> None:
        self._gate = gate
        self._holdings = holdings
        self._keyring = keyring
        self._trust = ""
        self._admitted: dict[MachineId, _Admitted] = {}

    def trust_authority(self, certificate: str) -> None:
        """Have machines whose TLS may be opened on the way out trust this certificate, in PEM."""
        self._trust = certificate

    async def admit(self, machine: Machine, sandbox: Sandbox, mode: EgressMode | None = None) -> Surroundings:
        """Let a machine out as its sandbox may. `mode` is what its packets are filtered by until now.

        Comes before the machine is told who it is. Raises SecretUnreadable for a sandbox that is being
        created; others go on without what cannot be read.
        """
        admitted = _Admitted(machine, machine.address, sandbox, mode)
        # Known before anything is looked up: what changes from now on is either seen here or told there.
        self._admitted[machine.id] = admitted
        found = await self._apply(admitted)
        if found.unreadable and sandbox.state is SandboxState.CREATING:
            raise SecretUnreadable(f"secret {found.unreadable[0]!r} cannot be decrypted by this server")
        tokens = {seal.name: seal.token for seal in found.holding.seals if not seal.inherited}
        admitted.sealed = frozenset(tokens)
        if found.rules.mode not in (EgressMode.WATCHED, EgressMode.RESTRICTED):
            return Surroundings(tokens)
        return Surroundings({**proxy_environment(), **tokens}, self._trust)

    def sealed_names(self, machine: Machine) -> frozenset[str]:
        """The variables of a machine that hold a token in the place of a secret."""
        admitted = self._admitted.get(machine.id)
        return frozenset() if admitted is None else admitted.sealed

    def dismiss(self, machine: Machine) -> None:
        """Forget a machine, and cut what it has open through the gate. Idempotent.

        Comes before its address is free: another machine may have it right after that.
        """
        admitted = self._admitted.pop(machine.id, None)
        if admitted is not None:
            self._gate.dismiss(admitted.address)

    async def refresh(self, sandbox_ids: Sequence[SandboxId]) -> Refreshed:
        """Look up again what these sandboxes may, as far as they run here; the others do when they wake."""
        wanted = set(sandbox_ids)
        mine = [each for each in self._admitted.values() if each.sandbox.id in wanted]
        outcomes = await asyncio.gather(*(self._refresh(each) for each in mine))
        # A sandbox may have two machines for a moment, while one takes the other's place.
        failed = {each.sandbox.id for each, went_well in zip(mine, outcomes, strict=True) if not went_well}
        return Refreshed(len({each.sandbox.id for each in mine} - failed), len(failed))

    async def _refresh(self, admitted: _Admitted) -> bool:
        try:
            return not (await self._apply(admitted)).unreadable
        except Exception:
            # What was changed is written down; one sandbox that is out of order must not undo that.
            _log.exception("a sandbox could not be told what changed", sandbox=admitted.sandbox.id)
            return False

    async def _apply(self, admitted: _Admitted) -> _Found:
        async with admitted.lock:
            found = await self._look(admitted.sandbox)
            if self._admitted.get(admitted.machine.id) is not admitted:
                return found
            await self._enforce(admitted, found.rules)
        return found

    async def _enforce(self, admitted: _Admitted, rules: EgressRules) -> None:
        """The stricter of two modes is in force while they change."""
        machine, before, after = admitted.machine, admitted.mode, rules.mode
        if before is not None and _STRICTNESS.index(after) <= _STRICTNESS.index(before):
            self._gate.admit(admitted.address, rules)
            if after is not before:
                await machine.set_egress(after)
        else:
            await machine.set_egress(after)
            if self._admitted.get(machine.id) is admitted:
                self._gate.admit(admitted.address, rules)
        admitted.mode = after

    async def _look(self, sandbox: Sandbox) -> _Found:
        # Without stores there are neither lists nor tokens, nor anything to look up.
        holding = await self._holdings.holding(sandbox.id) if sandbox.secret_stores else Holding()
        secrets: list[SealedSecret] = []
        unreadable: list[str] = []
        for seal in holding.seals:
            secret = holding.secret_of(seal)
            if secret is None:
                continue
            try:
                place = SecretPlace(sandbox.org_id, secret.store_id, secret.id)
                value = self._keyring.decrypt(secret.ciphertext, place)
            except OpenComputerError as error:
                _log.error("a secret cannot be used", sandbox=sandbox.id, name=seal.name, error=error.message)
                unreadable.append(seal.name)
                continue
            secrets.append(SealedSecret(seal.name, seal.token, value, secret.hosts))
        rules = EgressRules(
            org_id=sandbox.org_id,
            sandbox_id=sandbox.id,
            network_enabled=sandbox.network_enabled,
            allowlist=united((holding.allowlist, sandbox.egress_allowlist)),
            secrets=tuple(secrets),
        )
        return _Found(rules, holding, unreadable)

    async def allowed_hosts(self, sandbox: Sandbox) -> AllowedHosts:
        holding = await self._holdings.holding(sandbox.id) if sandbox.secret_stores else Holding()
        own = {
            seal.name: secret.hosts
            for seal in holding.seals
            if not seal.inherited and (secret := holding.secret_of(seal)) is not None
        }
        return AllowedHosts(
            stores=tuple(store.name for store in holding.stores),
            allowlist=united((holding.allowlist, sandbox.egress_allowlist)),
            by_secret={name: hosts for name, hosts in sorted(own.items()) if hosts},
        )
