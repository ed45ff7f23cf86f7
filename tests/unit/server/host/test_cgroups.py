"""Control groups of both versions, on trees of ordinary files."""

from __future__ import annotations

import errno
import subprocess
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from opencomputer.server.host import cgroups
from opencomputer.server.host.cgroups import (
    CgroupsUnavailable,
    GroupLimits,
    Groups,
    GroupStuck,
    Layout,
    SplitGroup,
    UnifiedGroup,
    parse_layout,
    remove_group,
)

LIMITS = GroupLimits(memory_bytes=1 << 30, cpu_percent=150, pids=512)
V1_TREES = ("freezer", "memory", "cpu", "cpuacct", "pids")
HYBRID = """\
tmpfs /sys/fs/cgroup tmpfs ro 0 0
cgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0
cgroup /sys/fs/cgroup/cpuacct cgroup rw,cpuacct 0 0
cgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0
cgroup /sys/fs/cgroup/freezer cgroup rw,freezer 0 0
cgroup /sys/fs/cgroup/pids cgroup rw,pids 0 0
cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0
"""
JOINED = """\
cgroup /cg/cpu,cpuacct cgroup rw,cpu,cpuacct 0 0
cgroup /cg/memory cgroup rw,memory 0 0
cgroup /cg/freezer cgroup rw,freezer 0 0
cgroup /cg/pids cgroup rw,pids 0 0
"""
PURE_V2 = "cgroup2 /sys/fs/cgroup cgroup2 rw,nosuid 0 0\n"
EMPTY_V1 = "cgroup /cg/systemd cgroup rw,name=systemd 0 0\ncgroup2 /cg/unified cgroup2 rw 0 0\n"


def split_group(root: Path) -> SplitGroup:
    return SplitGroup({name: root / name / "parent" / "m1" for name in V1_TREES})


def unified_group(root: Path) -> UnifiedGroup:
    (root / "parent").mkdir()
    return UnifiedGroup(root, "parent", "m1")


def test_version_1_is_used_where_it_has_everything() -> None:
    """An empty version 2 tree beside it, as many hosts have, changes nothing."""
    layout = parse_layout(HYBRID)
    assert layout.unified is None
    assert dict(layout.trees)["memory"] == Path("/sys/fs/cgroup/memory")


def test_controllers_may_share_a_tree() -> None:
    trees = dict(parse_layout(JOINED).trees)
    assert trees["cpu"] == trees["cpuacct"] == Path("/cg/cpu,cpuacct")


def test_version_2_is_used_where_it_is_alone() -> None:
    assert parse_layout(PURE_V2) == Layout((), Path("/sys/fs/cgroup"))


def test_version_2_is_used_where_version_1_has_no_controllers() -> None:
    assert parse_layout(EMPTY_V1) == Layout((), Path("/cg/unified"))


def test_a_host_without_control_groups_is_named() -> None:
    with pytest.raises(CgroupsUnavailable):
        parse_layout("tmpfs /sys/fs/cgroup tmpfs ro 0 0\n")


def test_limits_on_version_1(tmp_path: Path) -> None:
    split_group(tmp_path).create(LIMITS)
    assert read(tmp_path / "memory/parent/m1/memory.limit_in_bytes") == str(1 << 30)
    assert read(tmp_path / "cpu/parent/m1/cpu.cfs_period_us") == "100000"
    assert read(tmp_path / "cpu/parent/m1/cpu.cfs_quota_us") == "150000"
    assert read(tmp_path / "cpu/parent/m1/cpu.shares") == "1024"
    assert read(tmp_path / "pids/parent/m1/pids.max") == "512"


def test_limits_on_version_2(tmp_path: Path) -> None:
    """The controllers are switched on for the children first, from the root down."""
    unified_group(tmp_path).create(LIMITS)
    assert read(tmp_path / "cgroup.subtree_control") == "+cpu +memory +pids"
    assert read(tmp_path / "parent/cgroup.subtree_control") == "+cpu +memory +pids"
    assert read(tmp_path / "parent/m1/memory.max") == str(1 << 30)
    assert read(tmp_path / "parent/m1/cpu.max") == "150000 100000"
    assert read(tmp_path / "parent/m1/cpu.weight") == "100"
    assert read(tmp_path / "parent/m1/pids.max") == "512"


def test_a_small_weight_is_a_small_one_on_both_versions(tmp_path: Path) -> None:
    """Version 1 knows no share below two."""
    split_group(tmp_path).create(replace(LIMITS, cpu_weight=1))
    unified_group(tmp_path).create(replace(LIMITS, cpu_weight=1))
    assert read(tmp_path / "cpu/parent/m1/cpu.shares") == "10"
    assert read(tmp_path / "parent/m1/cpu.weight") == "1"


def test_usage_on_version_1(tmp_path: Path) -> None:
    """Memory that the kernel could take back at once does not count."""
    group = split_group(tmp_path)
    group.create(LIMITS)
    (tmp_path / "memory/parent/m1/memory.usage_in_bytes").write_text("1000\n")
    (tmp_path / "memory/parent/m1/memory.stat").write_text("total_cache 500\ntotal_inactive_file 300\n")
    (tmp_path / "cpuacct/parent/m1/cpuacct.usage").write_text("2500000000\n")
    (tmp_path / "pids/parent/m1/pids.current").write_text("17\n")
    usage = group.usage()
    assert (usage.memory_bytes, usage.cpu_seconds, usage.pids) == (700, 2.5, 17)


def test_usage_on_version_2(tmp_path: Path) -> None:
    group = unified_group(tmp_path)
    group.create(LIMITS)
    folder = tmp_path / "parent/m1"
    (folder / "memory.current").write_text("1000\n")
    (folder / "memory.stat").write_text("anon 500\ninactive_file 400\n")
    (folder / "cpu.stat").write_text("usage_usec 1500000\nuser_usec 1\n")
    (folder / "pids.current").write_text("3\n")
    usage = group.usage()
    assert (usage.memory_bytes, usage.cpu_seconds, usage.pids) == (600, 1.5, 3)


def test_freezing_on_version_2_waits_for_the_kernel(tmp_path: Path) -> None:
    group = unified_group(tmp_path)
    group.create(LIMITS)
    events = tmp_path / "parent/m1/cgroup.events"
    events.write_text("populated 1\nfrozen 0\n")
    later = threading.Timer(0.05, lambda: events.write_text("populated 1\nfrozen 1\n"))
    later.start()
    begin = time.monotonic()
    group.freeze()
    later.join()
    assert time.monotonic() - begin >= 0.04
    assert read(tmp_path / "parent/m1/cgroup.freeze") == "1"
    group.thaw()
    assert read(tmp_path / "parent/m1/cgroup.freeze") == "0"


def test_freezing_on_version_1_writes_the_state(tmp_path: Path) -> None:
    group = split_group(tmp_path)
    group.create(LIMITS)
    group.freeze()  # an ordinary file says at once what was written to it
    assert read(tmp_path / "freezer/parent/m1/freezer.state") == "FROZEN"
    group.thaw()
    assert read(tmp_path / "freezer/parent/m1/freezer.state") == "THAWED"


def test_processor_time_can_be_had_without_limit_for_a_while(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    first, second = split_group(tmp_path / "one"), unified_group(tmp_path / "two")
    for group in (first, second):
        group.create(LIMITS)
        limit = group.cpu_limit()
        assert limit == "150000"
        group.set_cpu_limit(cgroups.NO_LIMIT)
        assert group.cpu_limit() == cgroups.NO_LIMIT
        group.set_cpu_limit(limit)
        assert group.cpu_limit() == limit
    assert read(tmp_path / "two/parent/m1/cpu.max") == "150000"


class StuckFreezer:
    """The file `freezer.state` of a kernel that gets stuck a few times, and starts over after each thaw."""

    def __init__(self, times_stuck: int) -> None:
        self._times_stuck = times_stuck
        self.state = "THAWED"

    def __truediv__(self, name: str) -> StuckFreezer:
        assert name == "freezer.state"
        return self

    def write_text(self, text: str) -> None:
        if text == "FROZEN" and self.state == "THAWED" and self._times_stuck:
            self._times_stuck -= 1
            self.state = "FREEZING"
        elif text == "THAWED" or self.state == "THAWED":
            self.state = text

    def read_text(self) -> str:
        return f"{self.state}\n"


def stuck_group(monkeypatch: pytest.MonkeyPatch, times_stuck: int) -> tuple[SplitGroup, StuckFreezer]:
    monkeypatch.setattr(cgroups, "_FREEZE_TRY_SECONDS", 0.01)
    monkeypatch.setattr(cgroups, "_FREEZE_SECONDS", 0.1)
    freezer = StuckFreezer(times_stuck)
    return SplitGroup({"freezer": cast("Path", freezer)}), freezer


def test_a_freezer_of_version_1_that_gets_stuck_is_started_over(monkeypatch: pytest.MonkeyPatch) -> None:
    group, freezer = stuck_group(monkeypatch, times_stuck=2)
    group.freeze()
    assert freezer.state == "FROZEN"


def test_a_group_that_cannot_be_frozen_runs_on(monkeypatch: pytest.MonkeyPatch) -> None:
    group, freezer = stuck_group(monkeypatch, times_stuck=1000)
    with pytest.raises(GroupStuck):
        group.freeze()
    assert freezer.state == "THAWED"


def test_out_of_memory_is_told_on_both_versions(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    first, second = split_group(tmp_path / "one"), unified_group(tmp_path / "two")
    control = tmp_path / "one/memory/parent/m1/memory.oom_control"
    events = tmp_path / "two/parent/m1/memory.events"
    for group in (first, second):
        group.create(LIMITS)
    for count, expected in ((0, False), (2, True)):
        control.write_text(f"oom_kill_disable 0\nunder_oom 0\noom_kill {count}\n")
        events.write_text(f"low 0\noom 1\noom_kill {count}\n")
        assert first.out_of_memory() is expected
        assert second.out_of_memory() is expected


def test_a_command_joins_every_tree_before_it_starts(tmp_path: Path) -> None:
    """On version 1 a thread is moved alone, which needs no lock of the whole host."""
    argv = split_group(tmp_path).join_argv()
    assert argv[:2] == ["/bin/sh", "-c"]
    assert argv[-1] == "--"
    assert [Path(word).name for word in argv[4:-1]] == ["tasks"] * len(V1_TREES)


def test_joining_is_what_the_script_does(tmp_path: Path) -> None:
    group = unified_group(tmp_path)
    group.create(LIMITS)
    done = subprocess.run(
        [*group.join_argv(), "echo", "a b", "$c"], capture_output=True, text=True, check=True
    )
    assert done.stdout == "a b $c\n"
    assert read(tmp_path / "parent/m1/cgroup.procs") == "0"


def test_a_command_is_not_started_outside_of_its_group(tmp_path: Path) -> None:
    argv = UnifiedGroup(tmp_path, "nobody", "made-this").join_argv()
    done = subprocess.run([*argv, "echo", "started"], capture_output=True, text=True, check=False)
    assert done.returncode == 125
    assert done.stdout == ""


def test_the_groups_that_exist_are_those_of_any_tree(tmp_path: Path) -> None:
    """Also one that was being made when the server was killed."""
    groups = Groups(Layout(tuple((name, tmp_path / name) for name in V1_TREES), None), "parent")
    (tmp_path / "memory/parent/m1").mkdir(parents=True)
    (tmp_path / "cpu/parent/m2").mkdir(parents=True)
    (tmp_path / "cpu/parent/cpu.shares").write_text("1024")
    assert groups.names() == {"m1", "m2"}


def test_the_parent_is_removed_only_when_it_is_empty(tmp_path: Path) -> None:
    groups = Groups(Layout((), tmp_path), "parent")
    groups.remove_parent()
    (tmp_path / "parent/m1").mkdir(parents=True)
    groups.remove_parent()
    assert (tmp_path / "parent").exists()
    (tmp_path / "parent/m1").rmdir()
    groups.remove_parent()
    assert not (tmp_path / "parent").exists()


def test_removing_a_group_that_does_not_exist_is_fine(tmp_path: Path) -> None:
    remove_group(split_group(tmp_path), deadline_seconds=1)


def test_a_group_that_cannot_be_emptied_is_reported(tmp_path: Path) -> None:
    """Nobody waits for ever for a process that does not die."""
    group = unified_group(tmp_path)
    group.create(LIMITS)
    (tmp_path / "parent/m1/cgroup.procs").write_text("4194305\n")  # larger than any process number
    with pytest.raises(GroupStuck):
        remove_group(group, deadline_seconds=0.05)


def read(file: Path) -> str:
    return file.read_text().strip()


def test_a_group_that_goes_while_it_is_removed_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two may remove it at once; the kernel tells the slower one that there is no such device."""

    def gone(*_: object, **__: object) -> int:
        raise OSError(errno.ENODEV, "No such device")

    monkeypatch.setattr(Path, "write_text", gone)
    remove_group(split_group(tmp_path), deadline_seconds=1)
