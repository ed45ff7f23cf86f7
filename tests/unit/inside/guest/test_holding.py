"""In which order processes are stopped and go on; that they do is tested with real ones, in machines."""

from __future__ import annotations

import subprocess
from pathlib import Path
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opencomputer.inside.guest import holding
from opencomputer.inside.guest.children import Children
from opencomputer.inside.guest.holding import Holder, children_first, due_to_stop
from opencomputer.inside.guest.host_keys import host_key_kinds
from opencomputer.inside.guest.loop import Loop
from opencomputer.inside.guest.requests import Request
from opencomputer.inside.guest.trees import ProcessEntry, Trees, parse_stat


def entry(pid: int, parent: int) -> ProcessEntry:
    return ProcessEntry(pid, parent, pid, pid)


FAMILY = [entry(2, 1), entry(3, 2), entry(4, 3), entry(5, 1)]


def test_who_is_held_goes_on_at_last_when_the_host_is_never_heard_of_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(holding, "LONGEST_SECONDS", 0.05)
    loop = Loop()
    child = subprocess.Popen(["sleep", "300"])
    try:
        holder = Holder(loop, Trees(loop, whole_machine=False), Children(loop))
        request = Request(Mock(), 1, {})
        holder.hold(request)
        assert parse_stat(Path(f"/proc/{child.pid}/stat").read_text()).stopped  # type: ignore[union-attr]
        loop.call_later(0.2, loop.stop)
        loop.run()
        assert not parse_stat(Path(f"/proc/{child.pid}/stat").read_text()).stopped  # type: ignore[union-attr]
    finally:
        child.kill()
        child.wait()
        loop.close()


@pytest.mark.parametrize("still", [True, False])
def test_connections_are_counted_only_while_nobody_can_open_another(
    monkeypatch: pytest.MonkeyPatch, still: bool
) -> None:
    loop = Loop()
    try:
        holder, request = Holder(loop, Trees(loop, whole_machine=False), Children(loop)), Mock()
        monkeypatch.setattr(holder, "_hold_all", lambda: still)
        holder.hold(request)
        holder.let_go()
        [(answer,)] = [call.args for call in request.reply.call_args_list]
        assert ("connections" in answer) is still
    finally:
        loop.close()


def test_nobody_is_stopped_before_a_parent_that_could_notice() -> None:
    everybody = {2, 3, 4, 5}
    assert due_to_stop(FAMILY, everybody, everybody) == [2, 5]
    assert due_to_stop(FAMILY, {3, 4}, {3, 4}) == [3]
    assert due_to_stop(FAMILY, {3, 4}, {2, 3, 4}) == []


def test_everybody_goes_on_after_their_children() -> None:
    assert children_first(FAMILY, {2, 3, 4}) == [4, 3, 2]
    assert set(children_first(FAMILY, {2, 5, 99})) == {2, 5}


@given(st.dictionaries(st.integers(2, 60), st.integers(1, 60)))
def test_whatever_the_tree_all_who_are_there_go_on_once(parents: dict[int, int]) -> None:
    """Numbers of processes are used again, so that a table read meanwhile may even have rings in it."""
    entries = [entry(pid, parent) for pid, parent in parents.items()]
    assert sorted(children_first(entries, set(parents))) == sorted(parents)


def test_who_is_stopped_is_read_from_the_kernels_table() -> None:
    running = parse_stat("7 (a b) S 1 7 7 0 0")
    stopped, traced = parse_stat("7 (a) b) T 1 7 7 0 0"), parse_stat("7 (x) t 1 7 7 0 0")
    assert running is not None
    assert not running.stopped
    assert stopped is not None
    assert stopped.stopped
    assert traced is not None
    assert traced.stopped


def test_the_kind_of_a_host_key_is_in_its_name() -> None:
    paths = [
        "/etc/ssh/ssh_host_rsa_key",
        "/etc/ssh/ssh_host_ed25519_key",
        "/etc/ssh/ssh_host_../evil_key",
        "/etc/ssh/ssh_host_key",
    ]
    assert host_key_kinds(paths) == {
        "/etc/ssh/ssh_host_ed25519_key": "ed25519",
        "/etc/ssh/ssh_host_rsa_key": "rsa",
    }
