"""What the operations on whole sandboxes work with: stores, machines, and who has which."""

from __future__ import annotations

from dataclasses import dataclass

from opencomputer.server.contracts.artefacts import Artefacts
from opencomputer.server.contracts.clock import Clock
from opencomputer.server.contracts.stores import SandboxStore, SnapshotStore
from opencomputer.server.contracts.templates import TemplateCatalogue
from opencomputer.server.services.background import Background
from opencomputer.server.services.sandboxes.boot import Boot
from opencomputer.server.services.sandboxes.capture import Captures
from opencomputer.server.services.sandboxes.lifecycle import Lifecycle
from opencomputer.server.services.sandboxes.live import LiveSandboxes
from opencomputer.server.services.sandboxes.provisioning import Provisioning
from opencomputer.server.services.sandboxes.sealing import Sealings
from opencomputer.server.services.sandboxes.transitions import Transitions


@dataclass(frozen=True)
class Machinery:
    """One of each. `concurrency_limit` bounds an organisation's active sandboxes; None: nothing does."""

    sandboxes: SandboxStore
    snapshots: SnapshotStore
    artefacts: Artefacts
    templates: TemplateCatalogue
    provisioning: Provisioning
    boot: Boot
    captures: Captures
    live: LiveSandboxes
    transitions: Transitions
    lifecycle: Lifecycle
    sealings: Sealings
    clock: Clock
    background: Background
    concurrency_limit: int | None = None
