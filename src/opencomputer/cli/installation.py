"""Where this installation came from, and what brings a newer one or a part that is missing from there.

An index may have another program under the same name, so that what came from elsewhere must not be looked for
in one.
"""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit


def origin() -> dict[str, Any]:
    """What installers note of where it came from (PEP 610); nothing when that was a package index."""
    from importlib.metadata import PackageNotFoundError, distribution

    from opencomputer.sdk.version import DISTRIBUTION

    try:
        return json.loads(distribution(DISTRIBUTION).read_text("direct_url.json") or "{}")
    except PackageNotFoundError:
        return {}


def update_command(prefix: Path, came_from: dict[str, Any]) -> str:
    """The command that updates what is installed in `prefix`."""
    from opencomputer.sdk.version import DISTRIBUTION

    pip = f"{_pip()} --upgrade"
    if "vcs_info" in came_from:
        return f"{pip} {shlex.quote(_source(came_from, ''))}"
    if "dir_info" in came_from:
        folder = shlex.quote(_folder(came_from))
        update = f"make -C {folder} setup" if _is_editable(came_from) else f"{pip} {folder}"
        return f"git -C {folder} pull && {update}"
    if "pipx" in prefix.parts:
        return f"pipx upgrade {DISTRIBUTION}"
    if _is_uv_tool(prefix):
        return f"uv tool upgrade {DISTRIBUTION}"
    return f"{pip} {DISTRIBUTION}"


def command_for_extra(extra: str, prefix: Path, came_from: dict[str, Any]) -> str:
    """The command that adds an extra, such as "server", to what is installed in `prefix`."""
    source = shlex.quote(_source(came_from, f"[{extra}]"))
    if not came_from and "pipx" in prefix.parts:
        return f"pipx install --force {source}"
    if not came_from and _is_uv_tool(prefix):
        return f"uv tool install {source}"
    return f"{_pip()} {'-e ' if _is_editable(came_from) else ''}{source}"


def how_to_add(extra: str) -> str:
    """The same for the installation that runs."""
    return command_for_extra(extra, Path(sys.prefix), origin())


def _source(came_from: dict[str, Any], extra: str) -> str:
    from opencomputer.sdk.version import DISTRIBUTION

    if version_control := came_from.get("vcs_info"):
        return f"{DISTRIBUTION}{extra} @ {version_control['vcs']}+{came_from['url']}"
    if "dir_info" in came_from:
        return f"{_folder(came_from)}{extra}"
    return f"{DISTRIBUTION}{extra}"


def _folder(came_from: dict[str, Any]) -> str:
    return unquote(urlsplit(str(came_from["url"])).path)


def _is_editable(came_from: dict[str, Any]) -> bool:
    return bool(came_from.get("dir_info", {}).get("editable"))


def _is_uv_tool(prefix: Path) -> bool:
    return prefix.parent.name == "tools" and prefix.parent.parent.name == "uv"


def _pip() -> str:
    return f"{shlex.quote(sys.executable)} -m pip install"
