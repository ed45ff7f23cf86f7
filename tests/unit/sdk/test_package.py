"""The package as users import it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import opencomputer


def loaded_by(statement: str) -> set[str]:
    code = f"import sys; {statement}; print('\\n'.join(sys.modules))"
    output = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    return set(output.split())


def test_every_public_name_can_be_had() -> None:
    assert all(getattr(opencomputer, name) is not None for name in opencomputer.__all__)
    assert set(opencomputer.__all__) == set(dir(opencomputer))


def test_unknown_names_are_attribute_errors() -> None:
    assert not hasattr(opencomputer, "Nonsense")


def test_importing_the_package_loads_nothing_else() -> None:
    bare, ours = loaded_by("pass"), loaded_by("import opencomputer")
    assert ours - bare <= {"opencomputer", "__future__"}


@pytest.mark.parametrize("package", ["opencomputer", "opencomputer.blocking"])
def test_the_sdk_loads_no_command_line_and_no_sockets_before_they_are_needed(package: str) -> None:
    loaded = loaded_by(
        f"from {package} import OpenComputer, Sandbox, Shell, Pty, AgentSession, verify_webhook"
    )
    assert not loaded & {"click", "rich", "typer", "pygments", "pydantic", "websockets", "anyio", "uvloop"}
    assert "httpx" in loaded
    assert not loaded & {"httpx._main"}


def test_the_sdk_does_not_load_its_facade() -> None:
    loaded = loaded_by("from opencomputer import OpenComputer, Sandbox")
    assert not {name for name in loaded if name.startswith("opencomputer.blocking")}


def test_all_take_httpx_from_one_place() -> None:
    folders = [Path(opencomputer.__path__[0]) / name for name in ("sdk", "cli", "blocking")]
    direct = [file for folder in folders for file in folder.rglob("*.py") if _imports_httpx(file.read_text())]
    assert [file.name for file in direct] == ["http.py"]


def _imports_httpx(source: str) -> bool:
    return re.search(r"^\s*(import httpx|from httpx)", source, re.MULTILINE) is not None


def test_httpx_is_the_same_for_everybody() -> None:
    assert not loaded_by("from opencomputer import Sandbox; import httpx; assert httpx.get") & {"httpx._main"}
    assert loaded_by("import httpx; from opencomputer import Sandbox") >= {"httpx._main", "click"}


def test_the_client_needs_no_part_of_the_server() -> None:
    loaded = loaded_by("from opencomputer import Sandbox, Shell, Pty, AgentSession")
    assert not loaded & {"pydantic", "fastapi", "starlette", "sqlalchemy", "uvicorn"}
    assert not [name for name in loaded if name.startswith("opencomputer.server")]
