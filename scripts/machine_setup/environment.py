"""uv and the project's own environment, exactly as locked."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from machine_setup.steps import Display, StepFailed, run_program

_TOOLS = Path("/var/lib/opencomputer/tools")
_SYSTEM_PYTHON = "/usr/bin/python3"
_FIX = "Check that pip can install packages on this machine (index, proxy, certificates), then try again."
_LOCKED_FOR = "3.11"
_STAMP = "opencomputer.stamp"


def install_uv(display: Display) -> str:
    present = _find_uv()
    if present is not None:
        return present
    display.detail("installing uv with pip")
    run_program([_SYSTEM_PYTHON, "-m", "venv", str(_TOOLS)], display, fix="apt-get install python3-venv")
    run_program([str(_TOOLS / "bin/pip"), "install", "--quiet", "uv"], display, fix=_FIX)
    return str(_TOOLS / "bin/uv")


def make_environment(checkout: Path, display: Display) -> str:
    """Bring `.venv` to what the lock file says. Nothing is done while neither has changed."""
    venv = checkout / ".venv"
    wanted = _fingerprint(checkout)
    stamp = venv / _STAMP
    if stamp.exists() and stamp.read_text() == wanted and _works(venv):
        return "as locked"
    uv = _find_uv()
    if uv is None:
        raise StepFailed("uv is not installed.", _FIX)
    stamp.unlink(missing_ok=True)
    environment = {"VIRTUAL_ENV": str(venv), **index_settings(os.environ, _pip_index())}
    if not _works(venv):
        display.detail("creating .venv")
        run_program(
            [uv, "venv", "--clear", "--python", _choose_python(uv, environment), str(venv)],
            display,
            environment=environment,
            fix="Install Python 3.11 or newer.",
        )
    display.detail("installing the locked dependencies")
    locked = str(checkout / "requirements.lock")
    run_program([uv, "pip", "sync", "--require-hashes", locked], display, environment=environment, fix=_FIX)
    run_program(
        [uv, "pip", "install", "--no-deps", "--editable", str(checkout)],
        display,
        environment=environment,
        fix=_FIX,
    )
    stamp.write_text(wanted)
    return "installed as locked"


def index_settings(present: Mapping[str, str], pip_index: str | None) -> dict[str, str]:
    """What uv must be told to fetch from where pip does and to trust whom this machine trusts."""
    # Two names for the same switch: older and newer versions of uv.
    settings = {"UV_NATIVE_TLS": "1", "UV_SYSTEM_CERTS": "1", "UV_PYTHON_DOWNLOADS": "never"}
    index = present.get("PIP_INDEX_URL") or pip_index
    if index and not (present.get("UV_INDEX_URL") or present.get("UV_DEFAULT_INDEX")):
        settings["UV_DEFAULT_INDEX"] = index
    return settings


def _choose_python(uv: str, environment: Mapping[str, str]) -> str:
    """The version the dependencies were locked for where there is one, else the distribution's."""
    asked = subprocess.run(
        [uv, "python", "find", _LOCKED_FOR],
        capture_output=True,
        check=False,
        env={**os.environ, **environment},
    )
    return _LOCKED_FOR if asked.returncode == 0 else _SYSTEM_PYTHON


def _pip_index() -> str | None:
    """The index of pip's configuration files, which uv does not read."""
    pip = shutil.which("pip") or shutil.which("pip3")
    if pip is None:
        return None
    asked = subprocess.run(
        [pip, "config", "get", "global.index-url"], capture_output=True, text=True, check=False
    )
    return asked.stdout.strip() or None if asked.returncode == 0 else None


def _find_uv() -> str | None:
    own = _TOOLS / "bin/uv"
    for candidate in (shutil.which("uv"), str(own)):
        if candidate and Path(candidate).exists() and _answers([candidate, "--version"]):
            return candidate
    return None


def _works(venv: Path) -> bool:
    code = "import sys; raise SystemExit(not ((3, 11) <= sys.version_info < (3, 14)))"
    return _answers([str(venv / "bin/python"), "-c", code])


def _answers(arguments: list[str]) -> bool:
    try:
        return subprocess.run(arguments, capture_output=True, check=False, timeout=30).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def _fingerprint(checkout: Path) -> str:
    digest = hashlib.sha256(str(checkout).encode())
    for name in ("requirements.lock", "pyproject.toml"):
        digest.update((checkout / name).read_bytes())
    return digest.hexdigest()
