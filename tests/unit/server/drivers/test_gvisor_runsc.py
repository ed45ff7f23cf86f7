"""Command lines, image versions and records of the gVisor driver."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from opencomputer.server.contracts.driver import DriverRecord, Limits, MachineId
from opencomputer.server.contracts.network import Link
from opencomputer.server.drivers.gvisor.build import (
    BuildUnusable,
    ask_build,
    capabilities_of,
    image_version,
)
from opencomputer.server.drivers.gvisor.config import MachineFolder
from opencomputer.server.drivers.gvisor.driver import check_machine_id
from opencomputer.server.drivers.gvisor.launch import may_raise_limits, open_files_limit
from opencomputer.server.drivers.gvisor.node import group_limits
from opencomputer.server.drivers.gvisor.record import MachineState, from_record, to_record
from opencomputer.server.drivers.gvisor.runsc import Runsc
from opencomputer.server.host.processes import ProcessRef
from opencomputer.server.host.runsc_build import RunscBuild

OLD = RunscBuild(Path("/usr/bin/runsc"), "0.0~20240729.0", None, frozenset({"directfs"}), too_old=False)
NEW = replace(OLD, version="release-20261116.0", flags=frozenset({"directfs", "allow-suid"}))
MACHINE = MachineId("m0123456789abcde")
FOLDER = MachineFolder(Path("/data/machines/m0123456789abcde"))
STATE = MachineState(ProcessRef(12, 34), Link(5, "ocabcdefn0005", "10.231.0.22", "10.231.0.21", 30), "boot")


def test_the_id_comes_last_and_the_state_is_the_machines_own() -> None:
    argv = Runsc(OLD).run(MACHINE, FOLDER)
    assert argv[0] == "/usr/bin/runsc"
    assert argv[-1] == MACHINE
    assert f"--root={FOLDER.state}" in argv
    assert argv.index("run") > argv.index("--directfs")


def test_a_kvm_platform_is_never_chosen() -> None:
    """A device that exists may still hang."""
    assert "--platform=systrap" in Runsc(NEW).run(MACHINE, FOLDER)


def test_setuid_is_switched_on_where_the_build_knows_it() -> None:
    assert "--allow-suid" not in Runsc(OLD).run(MACHINE, FOLDER)
    assert "--allow-suid" in Runsc(NEW).run(MACHINE, FOLDER)


def test_run_checkpoint_and_restore_agree_about_the_machine() -> None:
    """A build refuses or misreads an image when these differ."""
    runsc = Runsc(NEW)
    flags = [
        [word for word in argv if word.startswith("--") and "=" not in word.partition("--image-path")[1]]
        for argv in (
            runsc.run(MACHINE, FOLDER)[1:13],
            runsc.restore(MACHINE, FOLDER, Path("/image"), direct=True)[1:13],
            runsc.checkpoint(MACHINE, FOLDER, Path("/target"), direct=False)[1:13],
        )
    ]
    assert flags[0] == flags[1] == flags[2]


def test_an_image_is_written_without_compression() -> None:
    argv = Runsc(OLD).checkpoint(MACHINE, FOLDER, Path("/target"), direct=True)
    assert "--compression=none" in argv


@pytest.mark.parametrize("direct", [True, False])
def test_memory_goes_past_the_hosts_only_where_that_is_asked_for(direct: bool) -> None:
    runsc = Runsc(OLD)
    for argv in (
        runsc.checkpoint(MACHINE, FOLDER, Path("/target"), direct=direct),
        runsc.restore(MACHINE, FOLDER, Path("/image"), direct=direct),
    ):
        assert ("--direct" in argv) is direct


def test_capabilities_follow_the_build() -> None:
    assert not capabilities_of(OLD).setuid
    assert capabilities_of(NEW).setuid


def test_what_is_not_runsc_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BuildUnusable, match="not a runsc"):
        ask_build(tmp_path / "missing")


def test_a_build_that_is_too_old_is_refused(tmp_path: Path) -> None:
    old = tmp_path / "runsc"
    old.write_text("#!/bin/sh\necho 'runsc version 0.0~20221219.0'\n")
    old.chmod(0o755)
    with pytest.raises(BuildUnusable, match="too old"):
        ask_build(old)


def test_an_image_version_changes_with_everything_an_image_depends_on(tmp_path: Path) -> None:
    cpu = "processor: 0\nflags\t\t: fpu sse avx\n"
    version = image_version(OLD, tmp_path / "a", cpu)
    assert version.startswith("0.0~20240729.0+")
    assert image_version(OLD, tmp_path / "a", "flags : avx fpu sse\n") == version
    others = {
        image_version(NEW, tmp_path / "a", cpu),
        image_version(OLD, tmp_path / "b", cpu),
        image_version(OLD, tmp_path / "a", "flags : fpu sse\n"),
    }
    assert version not in others
    assert len(others) == 3


def test_a_record_survives_json() -> None:
    record = to_record(MACHINE, STATE)
    assert from_record(DriverRecord(**json.loads(json.dumps(asdict(record))))) == STATE


@pytest.mark.parametrize(
    "state",
    [
        {},
        {"kernel": 1, "link": 2},
        {"kernel": {"pid": 1}, "link": {}},
        {"kernel": {}, "link": {}, "boot_id": 1},
    ],
)
def test_a_record_of_another_shape_is_no_machine(state: dict[str, object]) -> None:
    assert from_record(DriverRecord("gvisor", MACHINE, state)) is None  # type: ignore[arg-type]


def test_the_group_has_room_for_the_machines_own_kernel() -> None:
    """What the machine may use is kept inside; the kernel around it must not die of it."""
    limits = group_limits(Limits(memory_bytes=1 << 30, cpu_percent=100, disk_bytes=1 << 30, pids=4096))
    assert limits.memory_bytes >= (1 << 30) + (64 << 20)
    assert limits.pids > 8192
    assert limits.cpu_percent == 100


@pytest.mark.parametrize("bad", ["", "m123", "m0123456789abcde/..", "../../../../etc/p", "M0123456789ABCDE"])
def test_ids_of_another_shape_never_become_names(bad: str) -> None:
    with pytest.raises(ValueError, match="machine id"):
        check_machine_id(MachineId(bad))


@pytest.mark.parametrize(
    ("present", "may_raise", "expected"),
    [(1024, True, 1 << 20), (1024, False, 1024), (1 << 21, False, 1 << 20), (-1, False, 1 << 20)],
)
def test_open_files_are_as_many_as_can_be_given(present: int, may_raise: bool, expected: int) -> None:
    assert open_files_limit(present=present, most=1 << 20, may_raise=may_raise) == expected


def test_the_host_has_the_last_word_about_open_files() -> None:
    assert open_files_limit(present=1024, most=65536, may_raise=True) == 65536


def test_the_power_to_raise_limits_is_read_from_the_status() -> None:
    assert may_raise_limits("Name:\tx\nCapEff:\t000001ffffffffff\nSeccomp:\t0\n")
    assert not may_raise_limits("CapEff:\t000001fffeffffff\n")
    assert not may_raise_limits("")
