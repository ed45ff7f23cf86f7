"""The command line of `runsc`: every option we pass, and why."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from opencomputer.server.contracts.driver import MachineId
from opencomputer.server.drivers.gvisor.config import MachineFolder
from opencomputer.server.host.runsc_build import RunscBuild


class Runsc:
    """Builds the argument lists for one build. Pure."""

    def __init__(self, build: RunscBuild) -> None:
        self._build = build

    def run(self, machine_id: MachineId, folder: MachineFolder) -> list[str]:
        """Start a machine from its bundle and return; the machine goes on."""
        return [*self._command(folder, "run"), *_detached(folder), machine_id]

    def restore(
        self, machine_id: MachineId, folder: MachineFolder, image: Path, *, direct: bool
    ) -> list[str]:
        """Start a machine from a memory image and return; the machine goes on where it was saved.

        `direct`: read past the host's memory.
        """
        return [
            *self._command(folder, "restore"),
            *_detached(folder),
            f"--image-path={image}",
            *(["--direct"] if direct else []),
            machine_id,
        ]

    def checkpoint(
        self, machine_id: MachineId, folder: MachineFolder, target: Path, *, direct: bool
    ) -> list[str]:
        """Write the memory of a machine and leave it alive. `direct`: past the host's memory."""
        return [
            *self._command(folder, "checkpoint"),
            "--leave-running",
            # Compressing takes several times longer than writing.
            "--compression=none",
            *(["--direct"] if direct else []),
            f"--image-path={target}",
            machine_id,
        ]

    def _command(self, folder: MachineFolder, command: str) -> Sequence[str]:
        return [str(self._build.path), *self._flags(folder), command]

    def _flags(self, folder: MachineFolder) -> list[str]:
        flags = [
            # A state folder per machine: nothing is shared, and removing it makes runsc forget.
            f"--root={folder.state}",
            # Works on any host. A faster platform may exist and hang: it would have to be proved first.
            "--platform=systrap",
            # The machine's own network stack on the interface it finds in the namespace.
            "--network=sandbox",
            # Raw sockets inside, for ping. What leaves the machine is checked outside of it.
            "--net-raw",
            # Open connections do not stand in the way of a memory image; the copy finds them cut.
            "--net-disconnect-ok",
            # The root is an overlay of the host already; a second one inside would hide its files.
            "--overlay2=none",
            # Files are opened by the machine's kernel itself, not asked for one by one.
            "--directfs",
            # Nobody else changes these files while the machine runs, so they can be cached.
            "--file-access=exclusive",
            "--file-access-mounts=exclusive",
            # We make the control groups: they have to exist before runsc and be there to end it.
            "--ignore-cgroups",
        ]
        if "allow-suid" in self._build.flags:
            # Set-user-ID programs work as everywhere, sudo first of all.
            flags.append("--allow-suid")
        return flags


def _detached(folder: MachineFolder) -> list[str]:
    return ["--detach", f"--bundle={folder.bundle}", f"--pid-file={folder.pid_file}"]
