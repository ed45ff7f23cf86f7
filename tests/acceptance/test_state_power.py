"""Reboot and power-cycle of real machines (behaviour section 6)."""

from __future__ import annotations

import os
import signal
import sqlite3
from collections.abc import Generator
from contextlib import suppress

import pytest
from websockets.exceptions import ConnectionClosed

from opencomputer.wire import frames
from tests.support.box import Box, new_box
from tests.support.host_state import processes_with
from tests.support.server import ServerProcess

pytestmark = [pytest.mark.machines, pytest.mark.timeout(300)]


@pytest.fixture
def box(shared_server: ServerProcess) -> Generator[Box]:
    with new_box(shared_server, envs={"COLOUR": "blue"}, memoryMB=8192, timeout=3600) as made:
        yield made


@pytest.mark.parametrize("how", ["reboot", "power-cycle"])
def test_files_stay_and_programs_end(box: Box, how: str) -> None:
    """Files that were written just before, too. Nobody is told of an exit that nobody has seen."""
    with box.attached(box.start("echo begun; exec sleep 9753")) as sleeping:
        sleeping.read(holding=b"begun\n")
        box.output("head -c 20M /dev/urandom > big; sha256sum big > sum; echo lost > /tmp/scratch")
        assert box.write("just-before", b"written").status_code == 204
        before = box.described()
        box.ask(how, 204)
        with pytest.raises(ConnectionClosed):
            sleeping.read(until=frames.EXIT)
        assert sleeping.socket.close_reason == "sandbox rebooted"
    assert box.output("sha256sum -c --quiet sum; cat just-before; echo $COLOUR") == "writtenblue"
    assert box.output("ls /tmp | grep scratch || pgrep -xc sleep || true") == "0"
    after = box.described()
    same = ("memoryMB", "diskMB", "cpuCount", "timeout", "createdAt", "status")
    assert [after.get(name) for name in same] == [before.get(name) for name in same]
    box.ask(how, 204)
    assert box.output("cat just-before") == "written"


def test_a_kernel_that_does_not_answer_is_replaced(shared_server: ServerProcess, box: Box) -> None:
    """Stopped from outside, as a wedged one would be."""
    box.output("echo kept > file; sync")
    machines = {path.name for path in (shared_server.data / "machines").iterdir()}
    mine = [pid for name in machines if holds(shared_server, name, box.id) for pid in processes_with(name)]
    for pid in mine:
        os.kill(pid, signal.SIGSTOP)
    try:
        box.ask("power-cycle", 204)
        assert box.output("cat file; echo $COLOUR") == "kept\nblue"
    finally:
        for pid in mine:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


def holds(server: ServerProcess, machine_id: str, sandbox_id: str) -> bool:
    with sqlite3.connect(f"file:{server.data}/opencomputer.db?mode=ro", uri=True) as database:
        row = database.execute("select sandbox_id from machines where id = ?", (machine_id,)).fetchone()
    database.close()
    return row is not None and row[0] == sandbox_id


def test_what_sleeps_is_refused(box: Box) -> None:
    box.hibernate()
    box.ask("reboot", 400)
    box.ask("power-cycle", 400)
    assert box.output("echo works") == "works"
