"""Putting another machine in the place of a sandbox's present one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

import structlog

from opencomputer.server.contracts.machine import Machine
from opencomputer.server.domain.errors import Gone
from opencomputer.server.domain.sandbox import Sandbox, SandboxState
from opencomputer.server.services.sandboxes.boot import facts_of_machine
from opencomputer.server.services.sandboxes.capture import let_go_on
from opencomputer.server.services.sandboxes.deadlines import deadline
from opencomputer.server.services.sandboxes.live import Ending, LiveSandbox
from opencomputer.server.services.sandboxes.machinery import Machinery
from opencomputer.server.services.sandboxes.moves import Moves

_log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Successor:
    """A machine that has answered, and the row of its sandbox as it is with this machine."""

    sandbox: Sandbox
    machine: Machine


class Succession:
    """The old machine is there, to go back to, until its successor has answered and the store says so."""

    def __init__(self, machinery: Machinery) -> None:
        self._moves = Moves(machinery.sandboxes, machinery.clock)
        self._lifecycle = machinery.lifecycle
        self._live = machinery.live
        self._provisioning = machinery.provisioning
        self._clock = machinery.clock
        self._background = machinery.background

    async def replace(
        self,
        live: LiveSandbox,
        state: SandboxState,
        ending: Ending,
        make: Callable[[Sandbox], Awaitable[Successor]],
    ) -> None:
        """Serve the sandbox with what `make` makes, and let the old machine go. Whoever calls this excludes
        others. When it fails, the sandbox goes on with the old machine.

        Raises Gone when the sandbox was killed, OperationInProgress, and whatever `make` raises.
        """
        sandbox = await self._lifecycle.held(live)
        if not await self._moves.move(sandbox, SandboxState.RUNNING, state):
            raise Gone
        made: Successor | None = None
        try:
            # Read again: what could still be written until now, as the position of a patch, is in it.
            sandbox = await self._lifecycle.get(sandbox.org_id, live.id)
            made = await make(sandbox)
            row = await self._hand_over(live, state, made)
        except BaseException:
            await asyncio.shield(self._go_back(live, sandbox, state, made))
            raise
        self._live.remove(live.id, ending)
        self._lifecycle.attend(row, made.machine)
        self._let_go(live.machine)

    async def _hand_over(self, live: LiveSandbox, state: SandboxState, made: Successor) -> Sandbox:
        """The point of no return. Raises Gone."""
        # Its timeout may have changed while the machine was started.
        current = await self._lifecycle.get(live.sandbox.org_id, live.id)
        due_at = deadline(self._clock.now(), current.timeout_seconds)
        if not await self._moves.move(current, state, SandboxState.RUNNING, fields={"due_at": due_at}):
            raise Gone
        return replace(
            made.sandbox,
            state=SandboxState.RUNNING,
            machine_id=made.machine.id,
            timeout_seconds=current.timeout_seconds,
            due_at=due_at,
        )

    async def _go_back(
        self, live: LiveSandbox, sandbox: Sandbox, state: SandboxState, made: Successor | None
    ) -> None:
        if made is not None:
            self._let_go(made.machine)
        current = await self._lifecycle.get(live.sandbox.org_id, live.id)
        if current.state is not state:
            return
        await let_go_on(live.machine)
        if current.machine_id != live.machine.id:
            await self._claim_again(live, sandbox)
        await self._moves.move(sandbox, state, SandboxState.RUNNING)

    async def _claim_again(self, live: LiveSandbox, sandbox: Sandbox) -> None:
        """A successor was claimed: say again whose machine the old one is, and what is true of it."""
        try:
            token, facts = (
                self._provisioning.guest_token(live.machine),
                facts_of_machine(sandbox, sandbox.layers),
            )
            await self._provisioning.claim(live.machine, live.id, token, facts)
        except Exception:
            _log.exception("the store has the wrong machine of a sandbox", sandbox=live.id)

    def _let_go(self, machine: Machine) -> None:
        self._background.start(self._provisioning.stop(machine), name=f"let go of {machine.id}", finish=True)
