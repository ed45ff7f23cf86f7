"""What follows for the driver from the `runsc` build it is given."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from opencomputer.server.contracts.driver import Capabilities
from opencomputer.server.host.runsc_build import RunscBuild, ask

BUNDLE_GENERATION = "3"
"""Raise it when `bundle.py` changes what a machine is made of."""

_CPU_INFORMATION = Path("/proc/cpuinfo")


class BuildUnusable(Exception):
    """This runsc cannot be used; the message says why."""


def ask_build(path: Path) -> RunscBuild:
    """Ask the binary what it is. Blocks. Raises BuildUnusable when it is missing or too old."""
    build = ask(path)
    if build is None:
        raise BuildUnusable(f"{path} is not a runsc that runs here.")
    if build.too_old:
        raise BuildUnusable(f"{path} is runsc {build.version}, which is too old.")
    return build


def capabilities_of(build: RunscBuild) -> Capabilities:
    return Capabilities(
        memory_snapshots=True,
        setuid=build.honours_setuid,
        saves_deleted_files=build.saves_deleted_files,
    )


def image_version(build: RunscBuild, runtime: Path, cpu_information: str) -> str:
    """Everything a memory image depends on besides the machine's layers.

    A machine has parts of the runtime folder and the processor's features in its memory, and what the
    bundle says about mounts is part of the image.
    """
    features = re.search(r"^(?:flags|Features)\s*:\s*(.*)$", cpu_information, re.MULTILINE)
    sorted_features = " ".join(sorted(features[1].split())) if features else ""
    key = "\n".join((BUNDLE_GENERATION, build.version, str(runtime.resolve()), sorted_features))
    return f"{build.version}+{hashlib.sha256(key.encode()).hexdigest()[:12]}"


def image_version_here(build: RunscBuild, runtime: Path) -> str:
    """`image_version` on this host's processor."""
    return image_version(build, runtime, _CPU_INFORMATION.read_text())
