"""Only `settings.py` reads the environment of the server."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.architecture.tree import REPOSITORY, modules, parse

# main.py and doctor.py hand the environment to `load_settings` and look at nothing in it.
_HANDED_ON = ("server/main.py", "server/doctor.py")
# Clients and what runs inside machines have environments of their own.
_OWN = ("sdk", "cli", "inside")


def _reads(file: Path) -> Iterator[int]:
    for node in ast.walk(parse(file)):
        if isinstance(node, ast.Attribute) and node.attr in {"environ", "environb", "getenv", "putenv"}:
            yield node.lineno
        elif isinstance(node, ast.ImportFrom) and node.module == "os":
            yield from (node.lineno for alias in node.names if "env" in alias.name)


def _place(file: Path) -> str:
    return str(file.relative_to(REPOSITORY / "src/opencomputer"))


def test_nothing_of_the_server_looks_into_the_environment_by_itself() -> None:
    readers = [
        f"{_place(file)}:{line}"
        for file in modules().values()
        if _place(file).split("/")[0] not in _OWN and _place(file) not in _HANDED_ON
        for line in _reads(file)
    ]
    assert readers == []


def test_those_who_hand_it_on_do_only_that() -> None:
    for place in _HANDED_ON:
        file = REPOSITORY / "src/opencomputer" / place
        handed = [
            node
            for node in ast.walk(parse(file))
            if isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id == "load_settings"
            and ast.unparse(node.args[0]) == "os.environ"
        ]
        assert len(list(_reads(file))) == len(handed), place
