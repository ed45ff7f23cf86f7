"""One thing at a time with a sandbox as a whole: checkpoint, hibernate, wake, restore, reboot."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field

from opencomputer.server.domain.errors import OperationInProgress
from opencomputer.wire.ids import SandboxId


@dataclass(eq=False)
class _Transition:
    what: str
    closes: bool
    over: asyncio.Event = field(default_factory=asyncio.Event)


class Transitions:
    """Who excludes others from a sandbox. Nobody queues for it: a second one is refused (behaviour 2.5)."""

    def __init__(self) -> None:
        self._by_sandbox: dict[SandboxId, _Transition] = {}

    @contextmanager
    def exclusive(self, sandbox_id: SandboxId, what: str, *, closes: bool) -> Generator[None]:
        """Exclude others. With `closes`, calls of the data plane wait until this is over.

        Raises OperationInProgress. Takes effect without giving others a turn.
        """
        present = self._by_sandbox.get(sandbox_id)
        if present is not None:
            raise OperationInProgress(f"{present.what} is in progress; try again shortly")
        transition = self._by_sandbox[sandbox_id] = _Transition(what, closes)
        try:
            yield
        finally:
            del self._by_sandbox[sandbox_id]
            transition.over.set()

    def closes(self, sandbox_id: SandboxId) -> bool:
        transition = self._by_sandbox.get(sandbox_id)
        return transition is not None and transition.closes

    def busy(self, sandbox_id: SandboxId) -> bool:
        return sandbox_id in self._by_sandbox

    async def over(self, sandbox_id: SandboxId) -> None:
        """Wait until nobody excludes others from the sandbox."""
        while (transition := self._by_sandbox.get(sandbox_id)) is not None:
            await transition.over.wait()
