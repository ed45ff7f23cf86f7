"""What updates an installation or adds to it, and never what would put another program in its place."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from opencomputer.cli.installation import command_for_extra, origin, update_command

_INSTALL = f"{sys.executable} -m pip install"
_PIP = f"{_INSTALL} --upgrade"


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
    assert update_command(Path("/opt/.venv"), came_from) == command


@pytest.mark.parametrize(
    ("prefix", "command"),
    [
        ("/opt/pipx/venvs/opencomputer-sdk", "pipx upgrade opencomputer-sdk"),
        ("/opt/share/uv/tools/opencomputer-sdk", "uv tool upgrade opencomputer-sdk"),
    ],
)
def test_what_a_tool_has_installed_the_tool_updates(prefix: str, command: str) -> None:
    assert update_command(Path(prefix), {}) == command


@pytest.mark.parametrize(
    ("prefix", "came_from", "command"),
    [
        ("/v", {}, f"{_INSTALL} 'opencomputer-sdk[mcp]'"),
        ("/v", {"url": "file:///opt/oc", "dir_info": {"editable": True}}, f"{_INSTALL} -e '/opt/oc[mcp]'"),
        ("/v", {"url": "file:///opt/oc", "dir_info": {}}, f"{_INSTALL} '/opt/oc[mcp]'"),
        (
            "/opt/pipx/venvs/opencomputer-sdk",
            {"url": "https://example.com/oc.git", "vcs_info": {"vcs": "git"}},
            f"{_INSTALL} 'opencomputer-sdk[mcp] @ git+https://example.com/oc.git'",
        ),
        ("/opt/pipx/venvs/opencomputer-sdk", {}, "pipx install --force 'opencomputer-sdk[mcp]'"),
        ("/opt/share/uv/tools/opencomputer-sdk", {}, "uv tool install 'opencomputer-sdk[mcp]'"),
    ],
)
def test_a_part_that_is_missing_comes_from_there_too(
    prefix: str, came_from: dict[str, Any], command: str
) -> None:
    assert command_for_extra("mcp", Path(prefix), came_from) == command


def test_an_installation_knows_its_checkout() -> None:
    assert origin()["dir_info"]["editable"]
