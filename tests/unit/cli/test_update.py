"""`oc update` shows what updates this installation, and never what would put another program in its place."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from opencomputer.cli.commands.update import install_command, origin

_PIP = f"{sys.executable} -m pip install --upgrade"


@pytest.mark.parametrize(
    ("came_from", "command"),
    [
        ({}, f"{_PIP} opencomputer-sdk"),
        (
            {"url": "file:///opt/oc", "dir_info": {"editable": True}},
            "git -C /opt/oc pull && make -C /opt/oc setup",
        ),
        (
            {"url": "file:///my%20code/oc", "dir_info": {}},
            f"git -C '/my code/oc' pull && {_PIP} '/my code/oc'",
        ),
        (
            {"url": "https://example.com/oc.git", "vcs_info": {"vcs": "git", "commit_id": "0"}},
            f"{_PIP} 'opencomputer-sdk @ git+https://example.com/oc.git'",
        ),
    ],
)
def test_an_installation_is_updated_from_where_it_came(came_from: dict[str, Any], command: str) -> None:
    assert install_command(Path("/opt/.venv"), came_from) == command


@pytest.mark.parametrize(
    ("prefix", "command"),
    [
        ("/opt/pipx/venvs/opencomputer-sdk", "pipx upgrade opencomputer-sdk"),
        ("/opt/share/uv/tools/opencomputer-sdk", "uv tool upgrade opencomputer-sdk"),
    ],
)
def test_what_a_tool_has_installed_the_tool_updates(prefix: str, command: str) -> None:
    assert install_command(Path(prefix), {}) == command


def test_an_installation_knows_its_checkout() -> None:
    assert origin()["dir_info"]["editable"]
