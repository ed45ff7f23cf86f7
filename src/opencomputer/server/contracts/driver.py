"""What a way of isolating machines has to offer.

A driver brings machines into being and finds them again. It knows no users, sessions or HTTP, and it
receives paths, never stores. Optional powers are typed attributes (`Capabilities`), asked for in one place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import NewType, Protocol

from opencomputer.server.domain.egress import EgressMode

MachineId = NewType("MachineId", str)
"""`m` followed by 15 lower-case hex digits: ids of one length, because runsc accepts prefixes."""

LAYER = "layer"
MEMORY = "memory"
"""The folders of a saved machine (`Running.save`)."""

Json = str | int | float | bool | None | Sequence["Json"] | Mapping[str, "Json"]


@dataclass(frozen=True)
class Limits:
    """What one machine may use at most.

    `cpu_percent` is 100 per virtual CPU. `disk_bytes` bounds the writable layer. `cpu_weight`, from 1 to
    10000, is its share against other machines of the node while the processor is short.
    """

    memory_bytes: int
    cpu_percent: int
    disk_bytes: int
    pids: int = 4096
    cpu_weight: int = 100

    @property
    def processors(self) -> int:
        """How many its programs are told of."""
        return max(1, self.cpu_percent // 100)


@dataclass(frozen=True)
class Usage:
    """What one machine has used; counters grow for the life of the machine."""

    memory_bytes: int
    cpu_seconds: float
    pids: int
    network_in_bytes: int
    network_out_bytes: int


@dataclass(frozen=True)
class Capabilities:
    """What this build of this driver can do on this host, derived by asking it."""

    memory_snapshots: bool
    setuid: bool
    """Set-user-ID bits work, so the template's own `sudo` does."""
    saves_deleted_files: bool
    """A memory snapshot survives files that are open but deleted."""


@dataclass(frozen=True)
class MachineSpec:
    """Everything needed to start one machine.

    `layers` are immutable folders, bottom first. `memory_image` is the `MEMORY` folder that `Running.save`
    wrote of a machine that saw just the files which `layers` show: its own layers and, above them, the
    `LAYER` folder of the same saving. None means a cold start. `token` is the secret with which the host
    will introduce itself to the guest of a cold-started machine; a restored guest still has the token of
    the machine that was saved.
    """

    id: MachineId
    layers: tuple[Path, ...]
    limits: Limits
    token: str
    memory_image: Path | None = None
    egress: EgressMode = EgressMode.OPEN


@dataclass(frozen=True)
class DriverRecord:
    """What `adopt` needs to find a machine again after the server restarted. JSON-serialisable."""

    driver: str
    machine_id: MachineId
    state: Mapping[str, Json]


@dataclass(frozen=True)
class Stillness:
    """What is known of a machine before it is paused. `connected`: it may have connections to elsewhere."""

    connected: bool = True


Still = Callable[[], AbstractAsyncContextManager[Stillness]]
"""Makes what has to be entered before a machine is paused and left when it goes on."""


def not_still() -> AbstractAsyncContextManager[Stillness]:
    """A `Still` that does nothing and knows nothing."""
    return nullcontext(Stillness())


class Running(Protocol):
    """One running machine. Valid until stopped or lost."""

    @property
    def record(self) -> DriverRecord: ...

    @property
    def guest_address(self) -> tuple[str, int]:
        """Where the guest listens, reachable from the host only."""
        ...

    async def freeze(self) -> None:
        """Take all CPU away. Idempotent. Memory, sockets and files stay as they are."""
        ...

    async def thaw(self) -> None:
        """Undo `freeze`. Idempotent, well under a millisecond."""
        ...

    async def save(
        self, folder: Path, *, memory: bool = True, go_on: bool = True, still: Still = not_still
    ) -> None:
        """Write down what the machine is at one instant, and go on running.

        `folder` must not exist and appears only when it is complete, with the folder `LAYER`: a copy of the
        writable layer, usable as an immutable layer above the machine's own; and with `memory`, the folder
        `MEMORY`: the memory and all else that the driver needs to go on from it.

        `still` is entered late and left early: around what must be short, while the machine is written down.
        It is not entered when the machine cannot be saved for a reason that is known before.

        With `go_on` False a machine that was saved stays paused, for nothing but `stop`; one that could not
        be saved goes on. Raises SnapshotRefused with the runtime's own reason when the machine cannot be
        saved now; the machine is unharmed.
        """
        ...

    async def go_on(self) -> None:
        """Let a machine go on that was saved with `go_on` False. Idempotent."""
        ...

    async def set_limits(self, limits: Limits) -> None:
        """Change them at once; nothing that runs is ended. Raises Conflict when more memory is used."""
        ...

    async def set_egress(self, mode: EgressMode) -> None:
        """Change what is let out of the machine, at once: connections that the new mode does not permit
        get nothing through any more. Holds until it is changed again, whatever becomes of this process."""
        ...

    async def usage(self) -> Usage: ...

    async def wait(self) -> str:
        """Return why the machine ended, once it has ended by whatever cause."""
        ...

    async def stop(self) -> None:
        """End the machine and remove everything it used on the host. Idempotent, works on a dead one."""
        ...


class Driver(Protocol):
    """Brings machines into being and finds them again."""

    @property
    def name(self) -> str: ...

    @property
    def version(self) -> str:
        """Changes whenever memory images of the previous value must not be restored."""
        ...

    @property
    def capabilities(self) -> Capabilities: ...

    async def start(self, spec: MachineSpec) -> Running:
        """Start a machine. On any failure, cancellation included, nothing is left behind."""
        ...

    async def adopt(self, record: DriverRecord) -> Running | None:
        """Take over a machine started by an earlier server process. None: the machine is gone."""
        ...

    async def survey(self) -> Sequence[MachineId]:
        """Every machine of this node of which anything exists on the host, remembered or not."""
        ...

    async def discard(self, machine_id: MachineId) -> None:
        """Remove whatever exists of a machine, running or half-made. Idempotent."""
        ...
