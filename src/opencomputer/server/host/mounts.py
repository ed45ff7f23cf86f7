"""Overlay mounts and what has to be known about their option strings."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from opencomputer.server.host.kernel import Mount, mount

_MAX_OPTION_BYTES = 4095
"""The kernel copies one page of options."""


class TooManyLayers(Exception):
    """The paths of the layers together do not fit into one mount call."""


def overlay_options(lower_bottom_first: Sequence[Path], upper: Path, work: Path) -> str:
    """The option string of an overlay. The kernel wants the topmost lower folder first.

    `redirect_dir=on`: folders of a lower layer can be renamed in one step, as programs expect.
    `volatile`: no waiting for the disk on fsync. The host's disk is not what makes a machine durable, and
    a package installation in one machine must not stall the others.
    """
    lower = ":".join(_escape(folder) for folder in reversed(lower_bottom_first))
    options = f"lowerdir={lower},upperdir={_escape(upper)},workdir={_escape(work)},redirect_dir=on,volatile"
    if len(options.encode()) > _MAX_OPTION_BYTES:
        raise TooManyLayers(f"{len(lower_bottom_first)} layers need {len(options)} bytes of mount options")
    return options


def mount_overlay(lower_bottom_first: Sequence[Path], upper: Path, work: Path, target: Path) -> None:
    """Mount an overlay. Raises OSError, TooManyLayers."""
    mount("overlay", target, kind="overlay", options=overlay_options(lower_bottom_first, upper, work))


def detach_propagation() -> None:
    """Keep mounts of the calling thread's mount namespace to itself.

    They stay "slaves": what the host unmounts disappears here too, so no machine keeps a disk busy.
    """
    mount("none", Path("/"), flags=Mount.RECURSIVE | Mount.SLAVE)


def bind(source: Path, target: Path) -> None:
    """Make `target` show `source` in the calling thread's mount namespace."""
    mount(str(source), target, flags=Mount.BIND)


def bind_read_only(source: Path, target: Path) -> None:
    """As `bind`, and nothing can be written by way of `target`, whatever is mounted again inside."""
    bind(source, target)
    mount(
        "none", target, flags=Mount.BIND | Mount.REMOUNT | Mount.READ_ONLY | Mount.NO_SUID | Mount.NO_DEVICES
    )


def _escape(path: Path) -> str:
    return str(path).replace("\\", "\\\\").replace(":", "\\:").replace(",", "\\,")
