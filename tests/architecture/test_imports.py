"""Who may import whom. The rules are in ARCHITECTURE.md; this is what holds them."""

from __future__ import annotations

import ast
import sys
from collections.abc import Mapping, Sequence

import pytest

from tests.architecture.tree import PACKAGE, Import, imports, modules, parse

_PLUGIN = ("server.contracts", "server.domain", "server.host", "wire.ids")

# Each part of the package, and what of ours it may import. The longest matching part decides.
ALLOWED: Mapping[str, Sequence[str]] = {
    "wire": (),
    "inside.guest": (),
    "inside.agent_runner": (),
    "inside.brains": ("inside.agent_runner",),
    "inside.sudo": (),
    "inside": (),
    "sdk": ("wire",),
    "durable": ("sdk",),
    "blocking": ("sdk",),
    "hosted": ("sdk",),
    "integrations": ("sdk", "blocking.support"),
    "cli": ("sdk", "wire"),
    "server.domain": ("wire.ids",),
    "server.contracts": ("server.domain", "wire.ids"),
    "server.host": ("server.domain",),
    "server.services": ("server.contracts", "server.domain", "wire"),
    "server.http": ("server.services", "server.domain", "wire"),
    "server.drivers.gvisor": _PLUGIN,
    "server.drivers.fake": _PLUGIN,
    "server.network": _PLUGIN,
    "server.templates": (*_PLUGIN, "inside"),
    "server.machines": (*_PLUGIN, "inside.guest.protocol", "inside"),
    "server.models": _PLUGIN,
    "server.runtimes": _PLUGIN,
    "server.webhooks": _PLUGIN,
    "server.stores.sql": _PLUGIN,
    "server.stores.artefacts": _PLUGIN,
    "server.stores.keyring": _PLUGIN,
    "server.backups": (*_PLUGIN, "server.identity", "server.stores", "server.templates"),
    "server.stores.logs": _PLUGIN,
    "server.settings": ("server.domain",),
    "server.clock": (),
    "server.logs": (),
    "server.identity": (),
    "server.listeners": (),
    "server.doctor": (
        "server.settings",
        "server.host",
        "server.templates",
        "server.domain",
        "server.examination",
    ),
    "server.examination": (
        *_PLUGIN,
        "server.identity",
        "server.settings",
        "server.stores",
        "server.network.ruleset",
    ),
    "server.service_unit": ("server.host",),
    "server.node": (
        "server.host",
        "server.services",
        "server.settings",
        "server.identity",
        "server.listeners",
    ),
    "server.durable": ("server.contracts", "server.domain", "server.services", "server.settings"),
    "server.composition": (
        "server.contracts",
        "server.domain",
        "server.durable",
        "server.services",
        "server.http",
        "server.node",
        "server.settings",
        "server.identity",
    ),
    "server.main": ("server", "inside"),
}

# Commands about this machine's own server may load it, when they are called and not before.
_ADMINISTERING = frozenset({"serve", "doctor", "template", "orgs", "keyring", "backup", "service"})


# What looks after a node's files, whether or not it runs, knows what stores they are of.
_READERS = ("server.backups", "server.examination")


def _inner(name: str) -> str:
    return name.removeprefix(f"{PACKAGE}.")


def _within(name: str, part: str) -> bool:
    return name == part or name.startswith(f"{part}.")


def _part_of(name: str) -> str | None:
    parts = [part for part in ALLOWED if _within(_inner(name), part)]
    return max(parts, key=len, default=None)


def _administers(found: Import) -> bool:
    command = _inner(found.importer).removeprefix("cli.commands.").split(".")[0]
    return (
        _inner(found.importer).startswith("cli.commands.")
        and command in _ADMINISTERING
        and found.lazy
        and _within(_inner(found.imported), "server")
    )


def _permitted(found: Import) -> bool:
    part = _part_of(found.importer)
    if part is None or _within(_inner(found.imported), part) or _administers(found):
        return True
    return any(_within(_inner(found.imported), allowed) for allowed in ALLOWED[part])


def test_every_module_belongs_to_a_part() -> None:
    """A new part of the tree must say what it may import before it imports anything."""
    bare = {"", "server", "server.drivers", "server.stores"}
    top = {name for name in modules() if name == PACKAGE or _inner(name) in bare}
    assert [name for name in modules() if _part_of(name) is None and name not in top] == []


@pytest.mark.parametrize("part", ALLOWED)
def test_a_part_imports_only_what_it_may(part: str) -> None:
    mine = [found for found in imports() if _part_of(found.importer) == part]
    assert [str(found) for found in mine if not _permitted(found)] == []


def test_the_package_itself_imports_only_the_sdk() -> None:
    """`import opencomputer` must stay cheap and work without the server's dependencies."""
    mine = [found for found in imports() if found.importer == PACKAGE]
    assert [str(found) for found in mine if not _within(_inner(found.imported), "sdk")] == []


def test_only_main_names_concrete_plugins() -> None:
    plugins = (
        "server.drivers",
        "server.network",
        "server.models",
        "server.stores",
        "server.machines",
        "server.webhooks",
    )
    strangers = [
        str(found)
        for found in imports()
        for plugin in plugins
        if _within(_inner(found.imported), plugin)
        and not _within(_inner(found.importer), plugin)
        and found.importer != f"{PACKAGE}.server.main"
        and not any(_within(_inner(found.importer), reader) for reader in _READERS)
    ]
    assert strangers == []


def test_what_runs_inside_a_machine_needs_only_the_standard_library() -> None:
    """It runs on a bare interpreter. The agent's engine is the one exception: it comes with the template."""
    foreign: list[str] = []
    for name, file in modules().items():
        if not _within(_inner(name), "inside"):
            continue
        for node in ast.walk(parse(file)):
            targets = (
                [alias.name for alias in node.names]
                if isinstance(node, ast.Import)
                else [node.module or ""]
                if isinstance(node, ast.ImportFrom) and node.level == 0
                else []
            )
            foreign += [
                f"{name} imports {target}"
                for target in targets
                if target.split(".")[0] not in sys.stdlib_module_names | {"__future__", "claude_agent_sdk"}
            ]
    assert foreign == []


def test_pure_rules_do_no_io() -> None:
    """`domain` computes; files, sockets, processes and clocks belong to others."""
    doers = {"asyncio", "socket", "subprocess", "os", "time", "threading", "shutil", "httpx"}
    guilty: list[str] = []
    for name, file in modules().items():
        if _within(_inner(name), "server.domain"):
            for node in ast.walk(parse(file)):
                if isinstance(node, ast.Import):
                    guilty += [f"{name}: {alias.name}" for alias in node.names if alias.name in doers]
                elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in doers:
                    guilty.append(f"{name}: {node.module}")
                elif isinstance(node, ast.Name) and node.id in {"open", "Path"}:
                    guilty.append(f"{name}: {node.id}")
    assert guilty == []


def test_the_rules_themselves_can_tell_right_from_wrong() -> None:
    """A check that never fails is worth nothing."""
    wrong = Import("opencomputer.wire.ids", "opencomputer.server.main", 1, lazy=False)
    early = Import("opencomputer.cli.commands.serve", "opencomputer.server.main", 1, lazy=False)
    late = Import("opencomputer.cli.commands.serve", "opencomputer.server.main", 9, lazy=True)
    plain = Import("opencomputer.cli.commands.ls", "opencomputer.server.main", 9, lazy=True)
    assert [_permitted(each) for each in (wrong, early, late, plain)] == [False, False, True, False]
