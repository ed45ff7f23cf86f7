"""How the data plane comes to a sandbox's machine."""

from __future__ import annotations

from opencomputer.server.domain.errors import Gone, NotReady
from opencomputer.server.domain.sandbox import Sandbox, SandboxState
from opencomputer.server.services.sandboxes.hibernation import Hibernation
from opencomputer.server.services.sandboxes.lifecycle import Lifecycle
from opencomputer.server.services.sandboxes.live import LiveSandbox, LiveSandboxes
from opencomputer.server.services.sandboxes.transitions import Transitions
from opencomputer.wire.ids import OrgId, SandboxId


class Reach:
    """Whoever wants something of a sandbox gets its machine here, whatever state the sandbox is in."""

    def __init__(
        self, lifecycle: Lifecycle, live: LiveSandboxes, transitions: Transitions, hibernation: Hibernation
    ) -> None:
        self._lifecycle = lifecycle
        self._live = live
        self._transitions = transitions
        self._hibernation = hibernation

    async def live(self, org_id: OrgId, sandbox_id: SandboxId) -> LiveSandbox:
        """The running machine of a sandbox: woken if it sleeps, waited for if something is under way with it.

        Raises NotFound, Gone, NotReady, and what waking raises.
        """
        looked: Sandbox | None = None
        while True:
            live = self._live.get(org_id, sandbox_id)
            if live is not None and not self._transitions.closes(sandbox_id):
                return live
            before, looked = looked, await self._lifecycle.get(org_id, sandbox_id)
            if looked.state is SandboxState.STOPPED:
                raise Gone
            if self._transitions.closes(sandbox_id):
                await self._transitions.over(sandbox_id)
            elif looked.state is SandboxState.HIBERNATED:
                await self._hibernation.wake(org_id, sandbox_id)
            elif looked == before and self._live.get(org_id, sandbox_id) is None:
                # Seen twice, so it is not just that something came to its end while the row was read.
                raise NotReady("the sandbox is not ready on this server yet")

    async def settled(self, live: LiveSandbox) -> None:
        """Return once it is known whether the sandbox goes on with this machine, as far as that is open."""
        while self._transitions.closes(live.id) and not live.ended.is_set():
            await self._transitions.over(live.id)
