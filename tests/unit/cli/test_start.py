"""`oc` loads what a run needs, and its list of commands is that of the modules."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer.main

from opencomputer.cli import commands
from opencomputer.cli.catalogue import SECTIONS, Command
from opencomputer.cli.root import application, loaded

_LOADED = """
import json, sys
from opencomputer.cli.main import run
run({arguments})
print(json.dumps(sorted(sys.modules)))
"""
# Each takes longer to load than all that `oc --version` does.
_HEAVY = {"typer", "rich", "httpx", "websockets", "asyncio", "inspect", "importlib.metadata"}


def modules_after(*arguments: str) -> set[str]:
    """What is loaded when `oc` ran with these arguments."""
    program = [sys.executable, "-c", _LOADED.format(arguments=list(arguments))]
    printed = subprocess.run(program, capture_output=True, text=True, check=True).stdout
    return set(json.loads(printed.splitlines()[-1]))


def test_the_version_needs_next_to_nothing() -> None:
    found = modules_after("--version")
    assert not found & _HEAVY
    assert not {each for each in found if each.startswith("opencomputer.cli.commands")}
    assert {each for each in found if each.startswith("opencomputer")} == {
        "opencomputer",
        "opencomputer.cli",
        "opencomputer.cli.arguments",
        "opencomputer.cli.main",
        "opencomputer.sdk",
        "opencomputer.sdk.version",
    }


def test_help_loads_no_command() -> None:
    found = modules_after("--help")
    assert not found & (_HEAVY - {"typer", "inspect"})
    assert not {each for each in found if each.startswith("opencomputer.cli.commands.")}


def test_the_help_of_a_command_loads_its_module_only() -> None:
    found = modules_after("keys", "--help")
    assert {each for each in found if each.startswith("opencomputer.cli.commands.")} == {
        "opencomputer.cli.commands.keys"
    }
    assert not found & (_HEAVY - {"typer", "inspect"})


def _first_sentence(help: str) -> str:
    return re.split(r"(?<=[.…])\s", " ".join(help.split()))[0]


def _modules() -> list[str]:
    files = sorted(Path(str(commands.__file__)).parent.glob("*.py"))
    return [file.stem for file in files if "def add_to(app" in file.read_text()]


@pytest.mark.parametrize("module", _modules())
def test_the_list_of_commands_has_what_a_module_adds(module: str) -> None:
    """A row that is missing is printed as it must be written."""
    wanted = {
        Command(name, module, _first_sentence(each.help or ""), hidden=each.hidden)
        for name, each in loaded(module).items()
    }
    listed = {each for section in SECTIONS for each in section.commands if each.module == module}
    assert listed == wanted, f"add {wanted - listed}, remove {listed - wanted}"


def test_every_name_is_there_once_and_its_module_too() -> None:
    rows = [each for section in SECTIONS for each in section.commands]
    assert len({each.name for each in rows}) == len(rows)
    assert {each.module for each in rows} == set(_modules())


def test_the_commands_are_found_below_the_application() -> None:
    root = typer.main.get_group(application())
    assert root.commands["keys"].name == "keys"
    assert "nonsense" not in root.commands
    assert len(root.commands) == len(list(root.commands))
