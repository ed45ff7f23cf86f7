"""gVisor: a runsc that is new enough, from PATH, the official build or the distribution, in this order."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import tarfile
import urllib.error
import urllib.request
from pathlib import Path

from machine_setup import packages
from machine_setup.steps import Display, StepFailed, run_program
from opencomputer.server.host.distribution import read_distribution
from opencomputer.server.host.runsc_build import (
    OLDEST_RELEASE,
    OWN_BINARIES,
    RunscBuild,
    RunscMissing,
    ask,
    find_runsc,
    release_date,
)

OFFICIAL = "https://storage.googleapis.com/gvisor/releases/release/latest/x86_64"
_MODULE = "gvisor.dev/gvisor"
_REACH_SECONDS = 3
_READ_SECONDS = 60
_FIX = (
    "Put a current runsc on PATH (https://gvisor.dev/docs/user_guide/install/), or, where Go and its module "
    "proxy are at hand, run `make setup RUNSC=go` and link /var/lib/opencomputer/bin/runsc to runsc-go."
)


class Unreachable(Exception):
    """The official download cannot be had; the message says why."""


def install_runsc(display: Display) -> str:
    """Make sure that a runsc that is new enough is there."""
    build = _present()
    if build is None:
        build = _official(display) or _from_distribution(display)
    return f"{build.version} at {build.path}"


def build_with_go(display: Display) -> str:
    """Build the current release from its Go module, beside whichever runsc is in use."""
    go = shutil.which("go") or "/usr/local/go/bin/go"
    if not Path(go).exists():
        raise StepFailed("Go is not installed.", "Install Go (https://go.dev/doc/install), then try again.")
    version = _module_version(go, display)
    target = OWN_BINARIES / "runsc-go"
    name = f"go-{version.split('-')[1][:8]}"
    present = ask(target)
    if present is not None and present.version == name:
        return f"{name} at {target}"
    display.detail(f"compiling {version}; this takes minutes")
    work = OWN_BINARIES / ".building-go"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    try:
        run_program(
            [
                "nice", go, "install", "-trimpath",
                # The version is set by gVisor's own build system, which is not used here.
                "-ldflags", f"-s -w -X {_MODULE}/runsc/version.version={name}",
                f"{_MODULE}/runsc@{version}",
            ],
            display,
            environment={"CGO_ENABLED": "0", "GOBIN": str(work)},
            fix="Read the compiler's message above; a newer Go may be needed (https://go.dev/doc/install).",
        )  # fmt: skip
        (work / "runsc").replace(target)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return f"{name} at {target}; to use it: ln -s runsc-go {OWN_BINARIES}/runsc"


def _present() -> RunscBuild | None:
    try:
        build = find_runsc(os.environ.get("OPENCOMPUTER_RUNSC") or None)
    except RunscMissing:
        return None
    return None if build.too_old else build


def _official(display: Display) -> RunscBuild | None:
    """Install the official build, checked against its published checksum; None when it cannot be had."""
    display.detail("looking for the official build")
    folder = OWN_BINARIES / "runsc-official"
    work = OWN_BINARIES / ".building-official"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    try:
        fetch_official(work, display)
        build = ask(work / "runsc")
        if build is None or build.too_old:
            raise Unreachable("it does not run here")
        shutil.rmtree(folder, ignore_errors=True)
        work.rename(folder)
        _link(OWN_BINARIES / "runsc", "runsc-official/runsc")
        return ask(OWN_BINARIES / "runsc")
    except Unreachable as reason:
        display.detail(f"no official build: {reason}")
        return None
    finally:
        shutil.rmtree(work, ignore_errors=True)


def fetch_official(work: Path, display: Display) -> None:
    """Current releases are an archive of runsc and the programs it starts; older ones are one binary."""
    archive = work / "gvisor.tar.bz2"
    try:
        _download_checked(f"{OFFICIAL}/{archive.name}", archive, display)
    except urllib.error.HTTPError:
        try:
            _download_checked(f"{OFFICIAL}/runsc", work / "runsc", display)
        except urllib.error.HTTPError as error:
            raise Unreachable(str(error)) from error
    else:
        unpack(archive, work)
        archive.unlink()
    (work / "runsc").chmod(0o755)


def unpack(archive: Path, folder: Path) -> None:
    """Unpack the plain files of a release: `runsc` and `gvisor-bin/*`, nothing else."""
    with tarfile.open(archive, "r:bz2") as release:
        for member in release:
            parts = [part for part in Path(member.name).parts if part not in ("/", ".")]
            wanted = parts == ["runsc"] or (len(parts) == 2 and parts[0] == "gvisor-bin" and parts[1] != "..")
            content = release.extractfile(member) if wanted and member.isfile() else None
            if content is None:
                continue
            target = folder.joinpath(*parts)
            target.parent.mkdir(exist_ok=True)
            with target.open("wb") as file:
                shutil.copyfileobj(content, file)
            target.chmod(0o755)
    if not (folder / "runsc").exists():
        raise Unreachable("the archive holds no runsc")


def _download_checked(url: str, target: Path, display: Display) -> None:
    """Fetch a file and compare it with `URL.sha512`. Raises HTTPError when there is no such file."""
    try:
        with urllib.request.urlopen(f"{url}.sha512", timeout=_REACH_SECONDS) as answer:
            wanted = answer.read(4096).decode(errors="replace").split()[:1]
        display.detail(f"downloading {url}")
        digest = hashlib.sha512()
        with urllib.request.urlopen(url, timeout=_READ_SECONDS) as answer, target.open("wb") as file:
            while chunk := answer.read(1 << 20):
                digest.update(chunk)
                file.write(chunk)
                display.draw()
    except urllib.error.HTTPError:
        raise
    except (OSError, ValueError) as error:
        raise Unreachable(str(getattr(error, "reason", error))) from error
    if wanted != [digest.hexdigest()]:
        raise StepFailed(
            f"What {url} gave does not match its checksum.",
            "Do not use it. Try again later, or install runsc by hand from a source you trust.",
        )


def _from_distribution(display: Display) -> RunscBuild:
    host = read_distribution()
    display.detail(f"asking {host.name}")
    if not _new_enough(packages.candidate_version("runsc")):
        packages.update_lists(display)
    if not _new_enough(packages.candidate_version("runsc")) and host.id == "debian":
        packages.add_backports(host, "runsc", display)
    if not _new_enough(packages.candidate_version("runsc")):
        offered = packages.candidate_version("runsc") or "none"
        raise StepFailed(
            f"No runsc from {OLDEST_RELEASE} or later: the official build is out of reach and {host.name} "
            f"offers {offered}.",
            _FIX,
        )
    packages.install(["runsc"], display, update=False)
    build = _present()
    if build is None:
        raise StepFailed("The runsc that was installed does not work here.", _FIX)
    return build


def _new_enough(version: str | None) -> bool:
    released = release_date(version) if version else None
    return released is not None and released >= OLDEST_RELEASE


def _module_version(go: str, display: Display) -> str:
    """The version the `go` branch has now; a proxy that knows no branches is asked for its latest."""
    for query in ("go", "latest"):
        display.detail(f"asking the module proxy for {_MODULE}@{query}")
        asked = subprocess.run(
            [go, "list", "-m", "-json", f"{_MODULE}@{query}"],
            capture_output=True,
            text=True,
            check=False,
            cwd="/",
        )
        display.record(asked.stderr)
        if asked.returncode == 0:
            return str(json.loads(asked.stdout)["Version"])
    raise StepFailed(
        f"The Go module proxy does not offer {_MODULE}.",
        "Check GOPROXY and the network, or do without: the default build works.",
        asked.stderr,
    )


def _link(path: Path, target: str) -> None:
    fresh = path.with_name(f".{path.name}-new")
    fresh.unlink(missing_ok=True)
    fresh.symlink_to(target)
    fresh.replace(path)
