"""What is on the host in a node's name, and of no machine that it remembers."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence, Set
from contextlib import closing
from pathlib import Path

from opencomputer.server.examination.check import Check
from opencomputer.server.host.subprocesses import CommandTimedOut, run
from opencomputer.server.network.ruleset import table_name

_GROUPS = Path("/sys/fs/cgroup")
_INTERFACES = Path("/sys/class/net")
_SLOTS = Path("/run/opencomputer/links")
_SHOWN = 3


def check_leftovers(data: Path, *, running: bool) -> list[Check]:
    tag = _tag(data)
    if tag is None:
        return []
    known = _machines(data / "opencomputer.db")
    found = _present(tag, data)
    return [judge_leftovers(found, known), judge_rules(running=running, table=_table(tag))]


def judge_leftovers(found: Mapping[str, Set[str]], known: Set[str]) -> Check:
    """`found`: of each kind, the machines that have one."""
    orphans = sorted(
        f"{kind} of {machine}" for kind, machines in found.items() for machine in machines - known
    )
    if not orphans:
        return Check("leftovers", "ok", "Nothing of earlier machines is left on this host.")
    more = f" and {len(orphans) - _SHOWN} more" if len(orphans) > _SHOWN else ""
    return Check(
        "leftovers",
        "warn",
        f"Left of machines that nobody remembers: {', '.join(orphans[:_SHOWN])}{more}.",
        "A node that runs removes them within a minute; if none runs, start it.",
    )


def judge_rules(*, running: bool, table: str | None) -> Check:
    """`table` is the text of the node's table of the packet filter."""
    if not running:
        return Check("egress rules", "ok", "No node runs, so nothing has to be filtered.")
    if table is None:
        return Check(
            "egress rules",
            "fail",
            "The node runs, and its rules of the packet filter are gone: another program has emptied it.",
            "Restart the node at once, and start it after whatever loads the firewall.",
        )
    if "drop" not in table and "reject" not in table:
        return Check(
            "egress rules",
            "fail",
            "The node's rules of the packet filter refuse nothing.",
            "Restart the node at once, and see what else changes the firewall (`nft monitor`).",
        )
    return Check("egress rules", "ok", "The node's rules keep machines from private and local addresses.")


def _tag(data: Path) -> str | None:
    try:
        return str(json.loads((data / "node.json").read_text())["tag"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _machines(database: Path) -> frozenset[str]:
    try:
        with closing(sqlite3.connect(f"{database.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            return frozenset(str(row[0]) for row in connection.execute("SELECT id FROM machines"))
    except (sqlite3.Error, UnicodeError):
        return frozenset()


def _present(tag: str, data: Path) -> Mapping[str, Set[str]]:
    trees = [_GROUPS, *(path for path in _GROUPS.glob("*") if path.is_dir())]
    below = [path for tree in trees for path in (tree / f"opencomputer-{tag}").glob("m*")]
    interfaces = {path.name for path in _INTERFACES.glob(f"oc{tag}*")}
    holders = _holders(tag)
    return {
        "a folder": {path.name for path in (data / "machines").glob("m*")},
        # The controllers' own files stand beside them, and some begin alike.
        "a control group": {path.name for path in below if path.is_dir()},
        "an interface": {holders.get(name, name) for name in interfaces if _is_machines(name, tag)},
        "a mount": _mounts(data),
    }


def _is_machines(interface: str, tag: str) -> bool:
    return interface.removeprefix(f"oc{tag}").isdigit()


def _holders(tag: str) -> Mapping[str, str]:
    """Which machine has which interface."""
    found: dict[str, str] = {}
    for file in _SLOTS.glob("*/[0-9]*"):
        try:
            slot = json.loads(file.read_text())
            if slot["node_tag"] == tag:
                found[str(slot["interface"])] = str(slot["holder"])
        except (OSError, ValueError, KeyError):
            continue
    return found


def _mounts(data: Path) -> Set[str]:
    machines = f"{data.resolve()}/machines/"
    targets = (line.split(" ")[1] for line in Path("/proc/self/mounts").read_text().splitlines())
    return {target.removeprefix(machines).split("/")[0] for target in targets if target.startswith(machines)}


def _table(tag: str) -> str | None:
    listed: Sequence[str] = ["nft", "list", "table", "inet", table_name(tag)]
    try:
        done = run(listed, deadline_seconds=10)
    except (OSError, CommandTimedOut):
        return None
    return done.output if done.exit_code == 0 else None
