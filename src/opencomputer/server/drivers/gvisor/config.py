"""What the gVisor driver is told at its construction."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from opencomputer.server.contracts.driver import MachineId


@dataclass(frozen=True)
class GvisorConfig:
    """`runtime` is the folder shown at `/.oc` in every machine; it must never change in place.

    `node_tag` (6 hex digits) is in the name of everything host-wide, so that several nodes share a host.
    """

    data_dir: Path
    node_tag: str
    runsc: Path
    runtime: Path
    limit_disks: bool = True
    """Off: writable layers are ordinary folders, bounded by nothing but the host's own space."""
    start_deadline_seconds: float = 30.0
    stop_deadline_seconds: float = 20.0
    concurrent_starts: int = 4
    """Starts are bound by the processor: more at once only makes all of them later."""


@dataclass(frozen=True)
class MachineFolder:
    """Where one machine keeps what it needs on the host's disk."""

    path: Path

    @property
    def disk_file(self) -> Path:
        """Holds the machine's disk, where disks have a fixed size."""
        return self.path / "disk.ext4"

    @property
    def device_node(self) -> Path:
        """The device of the machine's disk while it runs."""
        return self.path / "device"

    @property
    def disk(self) -> Path:
        """Where the disk is mounted, in the mount namespace of the machine only."""
        return self.path / "disk"

    @property
    def upper(self) -> Path:
        """The writable layer."""
        return self.disk / "upper"

    @property
    def work(self) -> Path:
        """The overlay's own scratch folder; must be on the file system of `upper`."""
        return self.disk / "work"

    @property
    def root(self) -> Path:
        """Where the overlay is mounted, in the mount namespace of the machine only."""
        return self.path / "root"

    @property
    def runtime(self) -> Path:
        """Where the runtime folder is shown to the machine, read-only."""
        return self.path / "runtime"

    @property
    def bundle(self) -> Path:
        return self.path / "bundle"

    @property
    def state(self) -> Path:
        """What runsc remembers about the machine."""
        return self.path / "state"

    @property
    def memory_report(self) -> Path:
        """Stands in for /proc/meminfo while runsc starts."""
        return self.path / "meminfo"

    @property
    def birth(self) -> Path:
        """What cannot be changed any more about a machine, nor about those that start from its image."""
        return self.path / "birth.json"

    @property
    def saving(self) -> Path:
        """Exists while the machine may be paused for a saving, and says how."""
        return self.path / "saving"

    @property
    def pid_file(self) -> Path:
        return self.path / "pid"

    def create(self) -> None:
        """Raises FileExistsError when the machine exists."""
        self.path.mkdir(mode=0o700, parents=True)
        for folder in (self.disk, self.root, self.runtime, self.bundle, self.state):
            folder.mkdir()


def machines_dir(config: GvisorConfig) -> Path:
    return config.data_dir / "machines"


def machine_folder(config: GvisorConfig, machine_id: MachineId) -> MachineFolder:
    return MachineFolder(machines_dir(config) / machine_id)


def empty_folder(config: GvisorConfig) -> Path:
    """A folder that stays empty, to hide other folders behind."""
    return config.data_dir / "empty"
