"""A lock between processes is held until the last process that was given it has ended."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from opencomputer.server.host.locks import Held, exclusive, exclusive_now


def is_free(path: Path) -> bool:
    return subprocess.run(["flock", "--nonblock", path, "true"], check=False).returncode == 0


def test_nobody_else_gets_the_lock_meanwhile(tmp_path: Path) -> None:
    """It is free again afterwards."""
    lock = tmp_path / "lock"
    with exclusive(lock):
        assert not is_free(lock)
    assert is_free(lock)


def test_a_program_that_was_given_the_lock_keeps_it(tmp_path: Path) -> None:
    """A build whose parent was killed still keeps other builds out."""
    lock = tmp_path / "lock"
    with exclusive(lock) as descriptor:
        program = subprocess.Popen(["cat"], stdin=subprocess.PIPE, pass_fds=(descriptor,))
    try:
        assert not is_free(lock)
    finally:
        program.communicate()
    assert is_free(lock)


def test_whoever_must_wait_is_told(tmp_path: Path) -> None:
    """A person in front of a silent program would think it hangs."""
    lock = tmp_path / "lock"
    with exclusive(lock) as descriptor:
        program = subprocess.Popen(["cat"], stdin=subprocess.PIPE, pass_fds=(descriptor,))
    told: list[bool] = []

    def release() -> None:
        told.append(True)
        program.communicate()

    with exclusive(lock, on_wait=release):
        assert told == [True]


def test_without_waiting_a_held_lock_is_an_error(tmp_path: Path) -> None:
    """And a free one is held as usual."""
    with exclusive_now(tmp_path / "lock"), pytest.raises(Held), exclusive_now(tmp_path / "lock"):
        pass
    with exclusive_now(tmp_path / "lock") as descriptor:
        assert descriptor > 2
