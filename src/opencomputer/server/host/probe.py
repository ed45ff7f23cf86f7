"""Trying out what a node will need from this host. Each probe does the thing once and leaves nothing behind.

A probe returns None when it worked, else the host's own words about why it did not.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

from opencomputer.server.host.cgroups import (
    CgroupsUnavailable,
    GroupLimits,
    Groups,
    GroupStuck,
    parse_layout,
    remove_group,
)
from opencomputer.server.host.mounts import overlay_options
from opencomputer.server.host.subprocesses import CommandTimedOut, run

_DEADLINE_SECONDS = 15.0
_MOST_WORDS = 300
_RULESET = """
table ip opencomputer_probe {
    chain forward {
        type filter hook forward priority 0
        ip daddr 10.0.0.0/8 drop
        ct state established accept
    }
    chain before {
        type nat hook prerouting priority -100
        ip daddr 192.0.2.1 tcp dport 80 redirect to :8080
    }
    chain after {
        type nat hook postrouting priority 100
        oifname "lo" masquerade
    }
}
"""
_PROBE_LIMITS = GroupLimits(memory_bytes=64 << 20, cpu_percent=100, pids=64)


def try_firewall() -> str | None:
    """Load a table with every kind of rule a node uses, in a network namespace that ends with the probe."""
    return _attempt(["unshare", "--net", "nft", "-f", "-"], stdin=_RULESET.encode())


def try_namespaces() -> str | None:
    """Make a network namespace with a pair of virtual interfaces."""
    return _attempt(["unshare", "--net", "ip", "link", "add", "oc0", "type", "veth", "peer", "name", "oc1"])


def try_overlay(folder: Path) -> str | None:
    """Mount an overlay whose writable layer is on the file system of `folder`."""
    try:
        with tempfile.TemporaryDirectory(prefix=".probe-", dir=existing(folder)) as name:
            paths = [Path(name, part) for part in ("lower", "upper", "work", "merged")]
            for path in paths:
                path.mkdir()
            lower, upper, work, merged = paths
            options = overlay_options([lower], upper, work)
            return _attempt(["unshare", "--mount", "mount", "-t", "overlay", "-o", options, "x", str(merged)])
    except OSError as error:
        return str(error)


def try_cgroups() -> str | None:
    """Make a group with all limits a machine gets, freeze it, and remove it."""
    try:
        groups = Groups.of_this_host(f"opencomputer-probe-{os.getpid()}")
        group = groups.group("probe")
        try:
            group.create(_PROBE_LIMITS)
            group.freeze()
            group.thaw()
        finally:
            remove_group(group, deadline_seconds=5)
            groups.remove_parent()
    except (CgroupsUnavailable, GroupStuck, OSError) as error:
        return str(error)
    return None


def try_runsc(path: Path) -> str | None:
    """Run one command in a gVisor sandbox without network. Whatever hangs is ended at the deadline."""
    with tempfile.TemporaryDirectory(prefix="opencomputer-probe-") as state:
        arguments = [str(path), f"--root={state}", "--network=none", "--ignore-cgroups", "do", "/bin/true"]
        # In a process namespace of its own, because gVisor's processes leave their parents.
        return _attempt(["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", *arguments])


def can_forward_packets() -> bool:
    """IP forwarding is on or can be switched on by a node."""
    switch = Path("/proc/sys/net/ipv4/ip_forward")
    try:
        return switch.read_text().strip() == "1" or os.access(switch, os.W_OK)
    except OSError:
        return False


def free_bytes(folder: Path) -> int:
    """Space left for an ordinary program where `folder` is, or will be."""
    status = os.statvfs(existing(folder))
    return status.f_bavail * status.f_frsize


def free_inodes(folder: Path) -> float:
    """The share of inodes that are left where `folder` is, or will be; all where there is no limit."""
    status = os.statvfs(existing(folder))
    return status.f_favail / status.f_files if status.f_files else 1.0


def has_split_groups(mounts: str) -> bool:
    """Whether version 1 of control groups is complete, and so used; given the text of /proc/self/mounts."""
    try:
        return parse_layout(mounts).unified is None
    except CgroupsUnavailable:
        return False


def total_memory_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def existing(folder: Path) -> Path:
    """The nearest folder above that is there already."""
    return next(path for path in (folder.absolute(), *folder.absolute().parents) if path.is_dir())


def _attempt(arguments: Sequence[str], stdin: bytes = b"") -> str | None:
    try:
        done = run(arguments, deadline_seconds=_DEADLINE_SECONDS, stdin=stdin)
    except (OSError, CommandTimedOut) as error:
        return str(error)
    if done.exit_code == 0:
        return None
    words = " ".join(done.output.split())
    return words[:_MOST_WORDS] or f"exit code {done.exit_code}"
