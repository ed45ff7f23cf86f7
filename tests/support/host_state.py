"""What a node has left on the host. Tests compare it with nothing."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import subprocess
from pathlib import Path

SLOTS_DIR = Path("/run/opencomputer/links")
_HEX_15 = "[0-9a-f]" * 15


def host_state(node_tag: str, data_dir: Path) -> list[str]:
    """Everything on the host that belongs to machines of a node, as readable words."""
    found = [f"folder {path.name}" for path in (data_dir / "machines").glob("*")]
    for parent in _group_parents(node_tag):
        found += [f"group {path}" for path in parent.glob(f"m{_HEX_15}")]
    found += [f"interface {path.name}" for path in Path("/sys/class/net").glob(f"oc{node_tag}*")]
    found += [f"slot {path.name}" for path in SLOTS_DIR.glob("*/*") if _is_machines(path, node_tag)]
    found += [f"process {pid}" for pid in processes_with(str(data_dir))]
    found += [f"disk {file}" for file in _files_of_disks() if str(data_dir) in file]
    mounts = Path("/proc/self/mounts").read_text().splitlines()
    return found + [f"mount {line}" for line in mounts if str(data_dir) in line]


def machines_on_host(node_tag: str, data_dir: Path) -> dict[str, set[str]]:
    """Which machines of a node have a part of each kind on the host."""
    folder = f"{data_dir}/machines/"
    found = {
        "folders": {path.name for path in (data_dir / "machines").glob("*")},
        "processes": {_id_in(_command_line(pid), folder) for pid in processes_with(folder)},
        "disks": {_id_in(file, folder) for file in _files_of_disks() if folder in file},
        "links": _holders(node_tag),
    }
    for parent in _group_parents(node_tag):
        found[f"groups in {parent.parent.name}"] = {path.name for path in parent.glob(f"m{_HEX_15}")}
    return {kind: machines - {""} for kind, machines in found.items()}


def _id_in(text: str, folder: str) -> str:
    found = re.search(f"{re.escape(folder)}(m{_HEX_15})", text)
    return found[1] if found else ""


def _holders(node_tag: str) -> set[str]:
    """Machines with a slot whose interface exists, and whatever holds an interface without a slot."""
    owners: dict[str, str] = {}
    for path in SLOTS_DIR.glob("*/[0-9]*"):
        with contextlib.suppress(OSError):
            slot = json.loads(path.read_text())
            if slot["node_tag"] == node_tag and slot["holder"].startswith("m"):
                owners[slot["interface"]] = slot["holder"]
    interfaces = {path.name for path in Path("/sys/class/net").glob(f"oc{node_tag}*")}
    orphans = {f"interface {name}" for name in interfaces - owners.keys()}
    return {
        holder if name in interfaces else f"slot of {holder}" for name, holder in owners.items()
    } | orphans


def _command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
    except OSError:
        return ""


async def left_after_a_moment(node_tag: str, data_dir: Path) -> list[str]:
    """What is left of machines and node. The kernel takes namespaces apart after their last process."""
    left: list[str] = []
    for _ in range(100):
        left = [*host_state(node_tag, data_dir), *node_state(node_tag)]
        if not left:
            break
        await asyncio.sleep(0.02)
    return left


def processes_with(word: str) -> list[int]:
    """Processes (zombies excluded) that have `word` in their command line."""
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                command = (entry / "cmdline").read_bytes().decode(errors="replace")
            except OSError:
                continue
            if word in command:
                found.append(int(entry.name))
    return found


def node_state(node_tag: str) -> list[str]:
    """What a node itself has on the host besides its machines."""
    tables = subprocess.run(["nft", "list", "tables"], capture_output=True, text=True, check=True).stdout
    found = [line for line in tables.splitlines() if node_tag in line]
    addresses = subprocess.run(["ip", "-o", "address"], capture_output=True, text=True, check=True).stdout
    found += [line for line in addresses.splitlines() if f"oc{node_tag}" in line]
    return found + [f"group {path}" for path in _group_parents(node_tag)]


def _group_parents(node_tag: str) -> list[Path]:
    """The node's folder in each tree of control groups. Looked for by name: the rest is in use by others."""
    root = Path("/sys/fs/cgroup")
    trees = [root, *(path for path in root.iterdir() if path.is_dir())]
    return [path for tree in trees if (path := tree / f"opencomputer-{node_tag}").is_dir()]


def _files_of_disks() -> list[str]:
    """The files behind all loop devices; a device may vanish while we look."""
    found: list[str] = []
    for path in Path("/sys/block").glob("loop*/loop/backing_file"):
        with contextlib.suppress(OSError):
            found.append(path.read_text().strip())
    return found


def _is_machines(slot: Path, node_tag: str) -> bool:
    try:
        text = slot.read_text()
    except OSError:  # another node's, given back meanwhile
        return False
    return f'"{node_tag}"' in text and '"holder": "m' in text
