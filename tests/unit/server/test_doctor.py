"""The doctor's judgement: what is fit, what is weak, what is broken, and what to do about it."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from opencomputer.server import doctor
from opencomputer.server.examination.check import Check
from opencomputer.server.host.runsc_build import RunscBuild
from opencomputer.server.templates.catalogue import Template

GIB = 1 << 30
TEMPLATE = Template(
    name="base",
    hash="aa",
    rootfs=Path("/t/base/aa/rootfs"),
    description="",
    built_at=datetime(2026, 1, 2, tzinfo=UTC),
    size_bytes=1_400_000_000,
    package_count=3,
    current=True,
)


def build(*flags: str, too_old: bool = False) -> RunscBuild:
    return RunscBuild(Path("/usr/bin/runsc"), "release-20261116.0", None, frozenset(flags), too_old)


@pytest.mark.parametrize(
    "check",
    [
        doctor.check_root(0),
        doctor.check_kernel("6.18.44-fc"),
        doctor.check_python((3, 11, 2)),
        doctor.check_memory(8 * GIB),
        doctor.check_disk(100 * GIB, Path("/var/lib")),
        doctor.check_open_files(1_048_576),
        doctor.check_open_files(-1),
        doctor.check_cgroups(None),
        doctor.check_namespaces(None),
        doctor.check_firewall(None),
        doctor.check_forwarding(possible=True),
        doctor.check_overlay(None, Path("/var/lib")),
        doctor.check_kvm(present=True),
        doctor.check_kvm(present=False),
        doctor.judge_runsc(build("allow-suid", "allow-connected-on-save"), None),
        doctor.judge_template(TEMPLATE, "aa"),
        doctor.check_builder(present=True),
        doctor.check_certificates(2),
    ],
    ids=lambda check: check.name,
)
def test_a_fit_machine_needs_nothing(check: Check) -> None:
    """Nobody is told to mend what works."""
    assert (check.status, check.fix) == ("ok", "")


@pytest.mark.parametrize(
    ("check", "status"),
    [
        (doctor.check_root(1000), "fail"),
        (doctor.check_kernel("4.4.0"), "fail"),
        (doctor.check_kernel("5.4.0-100-generic"), "warn"),
        (doctor.check_python((3, 9, 1)), "fail"),
        (doctor.check_memory(GIB // 2), "fail"),
        (doctor.check_memory(2 * GIB), "warn"),
        (doctor.check_disk(GIB, Path("/var/lib")), "fail"),
        (doctor.check_disk(10 * GIB, Path("/var/lib")), "warn"),
        (doctor.check_open_files(1024), "warn"),
        (doctor.check_cgroups("read-only"), "fail"),
        (doctor.check_namespaces("not permitted"), "fail"),
        (doctor.check_firewall("no such file"), "fail"),
        (doctor.check_forwarding(possible=False), "fail"),
        (doctor.check_overlay("invalid argument", Path("/var/lib")), "fail"),
        (doctor.judge_runsc(build(too_old=True), None), "fail"),
        (doctor.judge_runsc(build("allow-suid"), "it hung"), "fail"),
        (doctor.judge_runsc(build(), None), "warn"),
        (doctor.judge_template(TEMPLATE, "bb"), "warn"),
        (doctor.check_builder(present=False), "warn"),
    ],
    ids=lambda value: value.name if isinstance(value, Check) else value,
)
def test_whatever_is_wrong_comes_with_a_way_to_mend_it(check: Check, status: str) -> None:
    """A complaint without a remedy helps nobody."""
    assert check.status == status
    assert check.fix


def test_the_hosts_own_words_are_repeated() -> None:
    """They are what a person can search for."""
    assert "Read-only file system" in doctor.check_cgroups("Read-only file system").summary


def test_gaps_of_an_old_build_are_named() -> None:
    """What a build cannot do is known before something fails because of it."""
    assert "sudo" in doctor.judge_runsc(build(), None).summary


def test_a_template_that_was_never_built_is_a_failure(tmp_path: Path) -> None:
    """No sandbox can start without one."""
    check = doctor.check_template(tmp_path, tmp_path / "no-recipe")
    assert (check.status, "make setup" in check.fix) == ("fail", True)
