"""The package as users import it."""

from __future__ import annotations

import subprocess
import sys

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
    assert not loaded_by("import opencomputer") & {"httpx", "websockets", "asyncio", "typer"}


def test_the_client_needs_no_part_of_the_server() -> None:
    loaded = loaded_by("from opencomputer import Sandbox, Shell, Pty, AgentSession")
    assert not loaded & {"pydantic", "fastapi", "starlette", "sqlalchemy", "uvicorn"}
    assert not [name for name in loaded if name.startswith("opencomputer.server")]
