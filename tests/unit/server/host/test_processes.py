"""Naming and watching processes that are not ours."""

from __future__ import annotations

import asyncio
import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from opencomputer.server.host.process_trees import descendants, kill_tree, tree
from opencomputer.server.host.processes import ProcessRef, is_alive, parse_stat, reference, wait_end

STAT = "42 (a (strange) name) S 1 42 42 0 -1 4194560 1 0 0 0 1 2 0 0 20 0 1 0 98765 1000 10"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def test_a_name_with_brackets_does_not_confuse() -> None:
    assert parse_stat(STAT) == ("S", 98765)


@pytest.mark.parametrize("state", ["Z", "X"])
def test_a_zombie_counts_as_dead(tmp_path: Path, state: str) -> None:
    """Its number still exists, which once kept dead machines running for ever."""
    (tmp_path / "42").mkdir()
    (tmp_path / "42/stat").write_text(STAT.replace(") S", f") {state}"))
    assert reference(42, proc=tmp_path) is None


def test_a_number_given_out_again_is_another_process() -> None:
    me = reference(os.getpid())
    assert me is not None
    assert is_alive(me)
    assert not is_alive(replace(me, start_ticks=me.start_ticks + 1))


def test_a_number_nobody_has_is_no_process(tmp_path: Path) -> None:
    assert reference(42, proc=tmp_path) is None


@pytest.mark.anyio
async def test_waiting_for_the_end_of_a_process() -> None:
    child = subprocess.Popen(["cat"], stdin=subprocess.PIPE)  # noqa: ASYNC220
    process = reference(child.pid)
    assert process is not None
    waiting = asyncio.ensure_future(wait_end(process))
    await asyncio.sleep(0)
    assert not waiting.done()
    child.kill()
    await asyncio.wait_for(waiting, 60)
    child.communicate()


@pytest.mark.anyio
async def test_waiting_for_a_process_that_is_gone_returns_at_once() -> None:
    await asyncio.wait_for(wait_end(ProcessRef(2**22, 1)), 1)
    await asyncio.wait_for(wait_end(ProcessRef(os.getpid(), 1)), 1)


def test_descendants_are_found_at_any_depth() -> None:
    assert descendants(1, [(2, 1), (3, 2), (4, 3), (9, 8), (1, 0)]) == {2, 3, 4}


def test_a_whole_tree_is_killed_also_when_it_is_stopped() -> None:
    script = "sleep 300 & (sleep 300 & wait) & echo ready; kill -STOP $$; wait"
    root = subprocess.Popen(["sh", "-c", script], stdout=subprocess.PIPE)
    assert root.stdout is not None
    root.stdout.readline()
    members = tree(root.pid)
    process = reference(root.pid)
    assert process is not None
    kill_tree(process, deadline_seconds=5)
    root.communicate()
    assert [pid for pid in members if reference(pid)] == []
