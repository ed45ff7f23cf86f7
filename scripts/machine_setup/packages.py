"""The distribution's packages: the ones everything needs, and runsc where only backports has a new one."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from machine_setup.steps import Display, StepFailed, run_program
from opencomputer.server.host.distribution import Distribution
from opencomputer.server.templates import sources

PACKAGES = (
    "ca-certificates",
    "iproute2",
    "libc-bin",
    "mmdebstrap",
    "nftables",
    "python3",
    "python3-venv",
    # Terminals in which the tests use `oc` as a person does.
    "tmux",
    "util-linux",
)
FOR_IMAGES = ("skopeo", "umoci")
"""Fetch and unpack images for `oc template import`. Nothing else needs them: their absence is no failure."""
_APT = Path("/etc/apt")
_SOURCES = _APT / "sources.list.d/opencomputer-backports.sources"
_PREFERENCES = _APT / "preferences.d/opencomputer"
_NETWORK_FIX = (
    "Check that `apt-get update` works on this machine (mirrors, proxy, certificates), then try again."
)


def install_packages(display: Display) -> str:
    missing = [package for package in (*PACKAGES, *FOR_IMAGES) if not is_installed(package)]
    if not missing:
        return "all there"
    if not set(missing) <= set(FOR_IMAGES):
        update_lists(display)
    chosen, unknown = split_known(missing, candidate_version)
    if unknown:
        display.detail(
            f"apt knows no {' and '.join(unknown)}: `oc template import` does not work without. Where a "
            "mirror has them (Debian's main, Ubuntu's universe), run `apt-get update` and this again."
        )
    if chosen:
        install(chosen, display, update=False)
    return f"installed {', '.join(chosen)}" if chosen else f"all there but {', '.join(unknown)}"


def split_known(
    missing: Sequence[str], candidate: Callable[[str], str | None]
) -> tuple[list[str], list[str]]:
    """What to install, and what can be done without and is not to be had."""
    unknown = [package for package in missing if package in FOR_IMAGES and candidate(package) is None]
    return [package for package in missing if package not in unknown], unknown


def is_installed(package: str) -> bool:
    asked = subprocess.run(
        ["dpkg-query", "--show", "--showformat=${db:Status-Status}", package],
        capture_output=True,
        text=True,
        check=False,
    )
    return asked.stdout == "installed"


def install(packages: list[str], display: Display, *, update: bool = True) -> None:
    """Install packages without recommended ones and without questions."""
    if update:
        update_lists(display)
    run_program(
        [
            "apt-get", "install", "--yes", "--no-install-recommends",
            # Somebody else's apt may be at work on a fresh machine.
            "-o", "DPkg::Lock::Timeout=300",
            *packages,
        ],
        display,
        environment={"DEBIAN_FRONTEND": "noninteractive"},
        show=lambda line: display.detail(line, passing=True),
        fix=_NETWORK_FIX,
    )  # fmt: skip


def update_lists(display: Display) -> None:
    display.detail("reading the package lists")
    run_program(["apt-get", "update", "-o", "DPkg::Lock::Timeout=300"], display, fix=_NETWORK_FIX)


def candidate_version(package: str, policy: str | None = None) -> str | None:
    """The version apt would install, or None where it knows none."""
    if policy is None:
        policy = subprocess.run(
            ["apt-cache", "policy", package], capture_output=True, text=True, check=False
        ).stdout
    found = re.search(r"^\s+Candidate: (\S+)", policy, re.MULTILINE)
    return found[1] if found and found[1] != "(none)" else None


def add_backports(host: Distribution, package: str, display: Display) -> None:
    """Let apt take exactly this package from the release's backports, from the mirror in use already."""
    display.detail(f"adding {host.codename}-backports for {package} only")
    _SOURCES.write_text(backports_source(_release_sources(host), host.codename))
    _PREFERENCES.write_text(backports_preferences(host.codename, package))
    update_lists(display)


def backports_source(release: list[sources.Source], codename: str) -> str:
    """The deb822 text that names the backports beside the release's own mirror."""
    main = next((source for source in release if codename in source.suites), None)
    if main is None:
        raise StepFailed(f"apt has no mirror of {codename}.", _NETWORK_FIX)
    backports = sources.Source(main.uris, (f"{codename}-backports",), ("main",), main.options)
    return "# Added by OpenComputer's `make setup`; see preferences.d/opencomputer.\n" + backports.render()


def backports_preferences(codename: str, package: str) -> str:
    return (
        f"# Added by OpenComputer's `make setup`: of backports, only {package} is ever installed.\n"
        f"Package: *\nPin: release n={codename}-backports\nPin-Priority: 1\n\n"
        f"Package: {package}\nPin: release n={codename}-backports\nPin-Priority: 600\n"
    )


def _release_sources(host: Distribution) -> list[sources.Source]:
    return sources.for_release(sources.read_host_sources(_APT), host.codename)
