"""What this machine can and cannot do for a node, in plain words, and how to change it.

Every check is a function of its own that never raises for a machine that is merely unfit. What is tried out
is in `host/probe.py`; here it is judged.
"""

from __future__ import annotations

import os
import resource
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from opencomputer.server.examination.check import Check
from opencomputer.server.examination.data import check_data
from opencomputer.server.examination.leftovers import check_leftovers
from opencomputer.server.examination.machine import check_machine
from opencomputer.server.examination.surroundings import check_surroundings, node_health
from opencomputer.server.host import probe
from opencomputer.server.host.distribution import extra_certificates, read_distribution
from opencomputer.server.host.runsc_build import RunscBuild, RunscMissing, describe_gaps, find_runsc
from opencomputer.server.settings import Settings, SettingsError, load_settings
from opencomputer.server.templates.builder import expected_hash
from opencomputer.server.templates.catalogue import Template, TemplateMissing, current_template
from opencomputer.server.templates.commands import BuildFailed
from opencomputer.server.templates.interpreter import find_interpreter
from opencomputer.server.templates.recipe import InvalidRecipe, load_recipe

_GIB = 1 << 30
_SETUP = "Run `make setup`."
_RECIPE = Path(__file__).resolve().parents[3] / "templates/base"
_BETTER_RUNSC = (
    "Install the official build (https://gvisor.dev/docs/user_guide/install/), or run `make setup RUNSC=go` "
    "and set OPENCOMPUTER_RUNSC=/var/lib/opencomputer/bin/runsc-go."
)


def run_checks(settings: Settings | None = None, *, deep: bool = False) -> list[Check]:
    """Look at everything a node needs; without `settings`, a node started from this environment.

    Blocks for about a second, longer where something outside does not answer, and with `deep` for as long as
    it takes to read all that is saved. Changes nothing, and raises nothing that a machine could be the reason
    of.
    """
    if settings is None:
        try:
            settings = load_settings(os.environ)
        except SettingsError as error:
            return [Check("settings", "fail", str(error), "Correct or unset these environment variables.")]
    checks = [check() for check in _checks(settings)]
    checks += check_data(settings.data, deep=deep)
    checks += check_leftovers(settings.data, running=node_health(settings.local_node_file).alive)
    checks += check_surroundings(settings)
    return [*checks, check_machine(settings.runsc)] if deep else checks


def _checks(settings: Settings) -> list[Callable[[], Check]]:
    return [
        lambda: check_root(os.geteuid()),
        check_distribution,
        lambda: check_kernel(os.uname().release),
        lambda: check_python(sys.version_info[:3]),
        lambda: check_memory(probe.total_memory_bytes()),
        lambda: check_disk(probe.free_bytes(settings.data), settings.data),
        lambda: check_open_files(resource.getrlimit(resource.RLIMIT_NOFILE)[1]),
        lambda: check_cgroups(probe.try_cgroups()),
        lambda: check_namespaces(probe.try_namespaces()),
        lambda: check_firewall(probe.try_firewall()),
        lambda: check_forwarding(probe.can_forward_packets()),
        lambda: check_overlay(probe.try_overlay(settings.data), settings.data),
        lambda: check_runsc(settings.runsc),
        lambda: check_kvm(Path("/dev/kvm").exists()),
        lambda: check_template(settings.templates, _RECIPE),
        check_runtime,
        lambda: check_builder(shutil.which("mmdebstrap") is not None),
        lambda: check_certificates(len(extra_certificates())),
    ]


def check_root(user_id: int) -> Check:
    if user_id == 0:
        return Check("root", "ok", "Running as root.")
    return Check(
        "root",
        "fail",
        "Not running as root: machines need mounts, network namespaces and control groups. "
        "The checks below may fail for this reason alone.",
        "Run it as root, for example with sudo.",
    )


def check_distribution() -> Check:
    host = read_distribution()
    if host.is_debian_like and host.architecture == "x86_64":
        return Check("system", "ok", f"{host.name} on {host.architecture}.")
    return Check(
        "system",
        "warn",
        f"{host.name} on {host.architecture}: only Debian and Ubuntu on x86-64 are set up automatically.",
        "Use Debian 12 or Ubuntu 24.04 or newer on x86-64.",
    )


def check_kernel(release: str) -> Check:
    major, minor = (int("".join(filter(str.isdigit, part)) or 0) for part in release.split(".")[:2])
    if (major, minor) < (4, 15):
        return Check("kernel", "fail", f"Linux {release} is too old for gVisor.", "Use Linux 4.15 or newer.")
    if (major, minor) < (5, 11):
        return Check(
            "kernel",
            "warn",
            f"Linux {release} works, but its overlay file system is slower to sync.",
            "Linux 5.11 or newer is better.",
        )
    return Check("kernel", "ok", f"Linux {release}.")


def check_python(version: tuple[int, ...]) -> Check:
    text = ".".join(map(str, version))
    if version >= (3, 11):
        return Check("python", "ok", f"Python {text} runs the node.")
    return Check("python", "fail", f"Python {text} is too old.", "Use Python 3.11 or newer.")


def check_memory(total_bytes: int) -> Check:
    text = f"{total_bytes / _GIB:.1f} GiB of memory"
    if total_bytes < 1 * _GIB:
        return Check("memory", "fail", f"{text} are not enough for a node.", "Give it at least 2 GiB.")
    if total_bytes < 4 * _GIB:
        return Check("memory", "warn", f"{text}: enough for a few sandboxes.", "4 GiB or more are better.")
    return Check("memory", "ok", f"{text}.")


def check_disk(free: int, folder: Path) -> Check:
    text = f"{free / _GIB:.0f} GiB free for {folder}"
    if free < 3 * _GIB:
        return Check("disk", "fail", f"Only {text}.", "Free some space or set OPENCOMPUTER_DATA elsewhere.")
    if free < 20 * _GIB:
        return Check(
            "disk",
            "warn",
            f"Only {text}; one sandbox may write as much as 20 GiB.",
            "Free some space, or set OPENCOMPUTER_MAX_DISK_MB lower.",
        )
    return Check("disk", "ok", f"{text}.")


def check_open_files(hard_limit: int) -> Check:
    if hard_limit in (-1, resource.RLIM_INFINITY) or hard_limit >= 65536:
        return Check("open files", "ok", "The limit of open files is high enough.")
    return Check(
        "open files",
        "warn",
        f"A process may open {hard_limit} files; a node with hundreds of sandboxes needs more.",
        "Raise the limit, for example `ulimit -Hn 1048576` or LimitNOFILE= of the service.",
    )


def check_cgroups(problem: str | None) -> Check:
    if problem is None:
        return Check("control groups", "ok", "Memory, CPU and process limits and freezing work.")
    return Check(
        "control groups",
        "fail",
        f"Control groups cannot be used: {problem}",
        "Mount cgroup version 2 at /sys/fs/cgroup with cpu, memory and pids, or all of version 1. "
        "In a container, run it privileged.",
    )


def check_namespaces(problem: str | None) -> Check:
    if problem is None:
        return Check("network namespaces", "ok", "Each machine can have its own network.")
    return Check(
        "network namespaces",
        "fail",
        f"A network namespace with a virtual interface cannot be made: {problem}",
        "Install iproute2 (`make setup`) and use a kernel with veth. In a container, run it privileged.",
    )


def check_firewall(problem: str | None) -> Check:
    if problem is None:
        return Check("firewall", "ok", "nftables filters and translates addresses.")
    return Check(
        "firewall",
        "fail",
        f"nftables does not accept the rules a node needs: {problem}",
        "Install nftables (`make setup`) and use a kernel with nf_tables, NAT, redirect and masquerade.",
    )


def check_forwarding(possible: bool) -> Check:
    if possible:
        return Check("forwarding", "ok", "Machines can reach the network through this host.")
    return Check(
        "forwarding",
        "fail",
        "IP forwarding is off and cannot be switched on from here.",
        "Set net.ipv4.ip_forward=1 with sysctl on the host.",
    )


def check_overlay(problem: str | None, folder: Path) -> Check:
    if problem is None:
        return Check("overlay", "ok", "Overlay file systems work in the data folder.")
    return Check(
        "overlay",
        "fail",
        f"An overlay cannot be mounted below {folder}: {problem}",
        "Put the data folder (OPENCOMPUTER_DATA) on ext4, xfs or btrfs, not on another overlay.",
    )


def check_runsc(explicit: str | None) -> Check:
    try:
        build = find_runsc(explicit)
    except RunscMissing as error:
        return Check("gVisor", "fail", str(error), _SETUP)
    problem = None if build.too_old else probe.try_runsc(build.path)
    return judge_runsc(build, problem)


def judge_runsc(build: RunscBuild, problem: str | None) -> Check:
    """Judge a build that was found. `problem` is what it said when it was tried out."""
    name = f"runsc {build.version} at {build.path}"
    if build.too_old:
        return Check("gVisor", "fail", f"{name} is too old.", f"{_SETUP} Or: {_BETTER_RUNSC}")
    if problem is not None:
        return Check("gVisor", "fail", f"{name} does not start: {problem}", _BETTER_RUNSC)
    gaps = describe_gaps(build)
    if gaps:
        return Check("gVisor", "warn", f"{name} works, with gaps: {'; '.join(gaps)}.", _BETTER_RUNSC)
    return Check("gVisor", "ok", f"{name} works and has everything.")


def check_kvm(present: bool) -> Check:
    if present:
        return Check(
            "KVM", "ok", "/dev/kvm exists. That proves nothing, so it is not used; gVisor needs none."
        )
    return Check("KVM", "ok", "Not there, and not needed: gVisor runs without it.")


def check_template(templates: Path, recipe_dir: Path) -> Check:
    try:
        template = current_template(templates, "base")
    except TemplateMissing as error:
        return Check("template", "fail", error.message, f"{_SETUP} Or: `oc template build`.")
    try:
        wanted = expected_hash(load_recipe(recipe_dir)) if recipe_dir.is_dir() else template.hash
    except InvalidRecipe as error:
        return Check("template", "warn", error.message, "Mend the recipe.")
    return judge_template(template, wanted)


def judge_template(template: Template, wanted: str) -> Check:
    built = f"base/{template.hash}, {template.size_bytes / 1e9:.1f} GB, built {template.built_at:%Y-%m-%d}"
    if template.hash == wanted:
        return Check("template", "ok", f"{built}.")
    return Check(
        "template",
        "warn",
        f"{built}, is not what the recipe and this host's certificates would give now.",
        "Run `make setup` or `oc template build`.",
    )


def check_runtime() -> Check:
    try:
        interpreter = find_interpreter()
    except BuildFailed as error:
        return Check("guest runtime", "fail", error.message, _SETUP)
    return Check("guest runtime", "ok", f"Guests run on the distribution's Python {interpreter.version}.")


def check_builder(present: bool) -> Check:
    if present:
        return Check("template builder", "ok", "mmdebstrap is installed.")
    return Check("template builder", "warn", "mmdebstrap is missing: no template can be built.", _SETUP)


def check_certificates(count: int) -> Check:
    if count == 0:
        return Check("certificates", "ok", "This host trusts no authorities beyond the usual ones.")
    return Check("certificates", "ok", f"{count} extra authorities of this host are trusted in templates.")
