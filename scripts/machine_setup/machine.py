"""The step that looks whether OpenComputer can run on this machine at all."""

from __future__ import annotations

import os
import sys

from machine_setup.steps import Display, StepFailed
from opencomputer.server.host.distribution import Distribution, read_distribution

_OLDEST_KERNEL = (4, 15)


def check_machine(display: Display) -> str:
    """Refuse machines on which later steps would fail in ways that are hard to understand."""
    host = read_distribution()
    refuse_unsupported(host, os.geteuid(), os.uname().release, sys.platform)
    return f"{host.name}, Linux {os.uname().release}, {os.cpu_count()} processors"


def refuse_unsupported(host: Distribution, user_id: int, kernel: str, system: str) -> None:
    """Raise StepFailed for the first thing that makes this machine unfit."""
    if system != "linux":
        raise StepFailed("This is not Linux.", "Use a Linux machine, a virtual one will do.")
    if user_id != 0:
        raise StepFailed(
            "Setting up needs root: it installs packages and creates root file systems.",
            "Run it again as root, for example: sudo make setup",
        )
    if not host.is_debian_like:
        raise StepFailed(
            f"{host.name} is not Debian or Ubuntu, whose packages this set-up and its templates use.",
            "Use Debian 12 or newer, or Ubuntu 24.04 or newer.",
        )
    if host.architecture != "x86_64":
        raise StepFailed(
            f"The processor is {host.architecture}; only x86-64 has been made to work so far.",
            "Use an x86-64 machine.",
        )
    if kernel_version(kernel) < _OLDEST_KERNEL:
        raise StepFailed(f"Linux {kernel} is too old for gVisor.", "Use Linux 4.15 or newer.")


def kernel_version(release: str) -> tuple[int, int]:
    major, minor = release.split(".")[:2]
    return int(major), int("".join(filter(str.isdigit, minor.split("-")[0])) or 0)
