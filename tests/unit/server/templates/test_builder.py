"""What a build passes to the programs it runs, and what it takes over from the operator."""

from __future__ import annotations

from pathlib import Path

from opencomputer.server.templates.builder import bootstrap_arguments, build_environment, in_root
from opencomputer.server.templates.recipe import Recipe

RECIPE = Recipe(
    name="small",
    description="",
    folder=Path("/recipe"),
    packages=("bash", "git"),
    exclude=("/usr/share/doc/*",),
    include=("/usr/share/doc/*/copyright",),
    variables={},
    modes={},
    content="",
)


def test_a_build_sees_where_packages_come_from_and_nothing_else_of_the_operator() -> None:
    """Indexes and proxies are needed; keys and personal settings have no business in a template."""
    operator = {
        "PIP_INDEX_URL": "https://index.example/simple",
        "https_proxy": "http://proxy.example",
        "ANTHROPIC_API_KEY": "secret",
        "PYTHONPATH": "/mine",
        "HOME": "/home/me",
        "PATH": "/opt/mine/bin",
    }
    environment = build_environment(operator)
    assert environment["PIP_INDEX_URL"] == "https://index.example/simple"
    assert environment["https_proxy"] == "http://proxy.example"
    assert environment["HOME"] == "/root"
    assert "/opt/mine" not in environment["PATH"]
    assert not {"ANTHROPIC_API_KEY", "PYTHONPATH"} & environment.keys()


def test_excluded_paths_come_before_the_exceptions_from_them() -> None:
    """dpkg lets the last matching rule win."""
    arguments = bootstrap_arguments(RECIPE, "bookworm", Path("/s.sources"), Path("/root"))
    exclude = arguments.index("--dpkgopt=path-exclude=/usr/share/doc/*")
    include = arguments.index("--dpkgopt=path-include=/usr/share/doc/*/copyright")
    assert exclude < include


def test_the_release_the_target_and_the_mirrors_end_the_command() -> None:
    """mmdebstrap takes these three by position."""
    arguments = bootstrap_arguments(RECIPE, "bookworm", Path("/s.sources"), Path("/root"))
    assert arguments[-3:] == ["bookworm", "/root", "/s.sources"]
    assert "--include=bash,git" in arguments


def test_a_bootstrap_cannot_leave_mounts_or_processes() -> None:
    """mmdebstrap mounts the host's devices in the new root; killed outside, it would leave them there."""
    arguments = bootstrap_arguments(RECIPE, "bookworm", Path("/s.sources"), Path("/root"))
    before = set(arguments[: arguments.index("mmdebstrap")])
    assert {"--pdeathsig=KILL", "--mount", "--pid", "--kill-child", "--propagation=private"} <= before


def test_what_runs_in_a_new_root_cannot_leave_mounts_or_processes() -> None:
    """Its namespaces of mounts and processes end with it."""
    arguments = in_root(Path("/new"), ["true"])
    assert {"--mount", "--pid", "--kill-child", "--propagation=private"} <= set(arguments)
    assert arguments[-3:] == ["chroot", "/new", "true"]
