"""Removing everything of a machine from the host. One way for all cases: stopped, failed, half-made, lost."""

from __future__ import annotations

import shutil
from pathlib import Path

from opencomputer.server.contracts.driver import MachineId
from opencomputer.server.drivers.gvisor.node import Node
from opencomputer.server.host.cgroups import remove_group

_TREE_ATTEMPTS = 3


def remove_machine(node: Node, machine_id: MachineId) -> None:
    """End a machine and remove what it used. Idempotent; blocks; knows nothing but the id.

    The order matters: processes first, because they use the rest; the folder last, because as long as
    it exists the id is taken.
    """
    node.before_step("remove group")
    remove_group(node.group(machine_id), deadline_seconds=node.config.stop_deadline_seconds)
    node.before_step("remove link")
    node.network.release(machine_id)
    node.disks.wait_until_released(node.folder(machine_id))
    node.before_step("remove folder")
    _remove_tree(node.folder(machine_id).path)


def _remove_tree(path: Path) -> None:
    """Remove a folder, also while somebody else is removing it. Raises OSError when it does not go."""
    for _ in range(_TREE_ATTEMPTS):
        shutil.rmtree(path, ignore_errors=True)
        if not path.exists():
            return
    shutil.rmtree(path)
