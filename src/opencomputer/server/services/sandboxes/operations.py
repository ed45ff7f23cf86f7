"""Everything that can be done to a sandbox as a whole, put together once."""

from __future__ import annotations

from dataclasses import dataclass

from opencomputer.server.contracts.stores import PatchStore
from opencomputer.server.services.sandboxes.checkpoints import Checkpoints
from opencomputer.server.services.sandboxes.diffs import Diffs
from opencomputer.server.services.sandboxes.forks import Forks
from opencomputer.server.services.sandboxes.hibernation import Hibernation
from opencomputer.server.services.sandboxes.machinery import Machinery
from opencomputer.server.services.sandboxes.patches import Patches
from opencomputer.server.services.sandboxes.power import Power
from opencomputer.server.services.sandboxes.reach import Reach
from opencomputer.server.services.sandboxes.restores import Restores
from opencomputer.server.services.sandboxes.succession import Succession


@dataclass(frozen=True)
class Operations:
    checkpoints: Checkpoints
    forks: Forks
    restores: Restores
    hibernation: Hibernation
    reach: Reach
    power: Power
    patches: Patches
    diffs: Diffs


def operations(machinery: Machinery, patch_store: PatchStore) -> Operations:
    lifecycle, live, transitions = machinery.lifecycle, machinery.live, machinery.transitions
    patches = Patches(patch_store, machinery.snapshots, machinery.sandboxes, transitions, machinery.clock)
    checkpoints = Checkpoints(machinery)
    succession = Succession(machinery)
    hibernation = Hibernation(machinery, patches)
    reach = Reach(lifecycle, live, transitions, hibernation)
    return Operations(
        checkpoints=checkpoints,
        forks=Forks(machinery, checkpoints, reach, patches),
        restores=Restores(machinery, checkpoints, succession),
        hibernation=hibernation,
        reach=reach,
        power=Power(machinery, succession),
        patches=patches,
        diffs=Diffs(machinery, checkpoints),
    )
