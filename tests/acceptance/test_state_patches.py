"""Patches of checkpoints on real machines (behaviour section 18)."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

from tests.support.box import Box, new_box
from tests.support.server import ServerProcess
from tests.support.waiting import until

pytestmark = [pytest.mark.machines, pytest.mark.timeout(300)]

WRITE = "set -e; id -un; echo {0} $COLOUR >> ~/patched; echo $# > ~/arguments; [[ {0} != 3 || -e ~/allowed ]]"


@pytest.fixture
def box(shared_server: ServerProcess) -> Generator[Box]:
    with new_box(shared_server, envs={"COLOUR": "blue"}) as made:
        yield made


def add(client: httpx.Client, checkpoint: str, script: str) -> dict[str, Any]:
    answer = client.post(f"/sandboxes/checkpoints/{checkpoint}/patches", json={"script": script})
    assert answer.status_code == 201, answer.text
    return answer.json()["patch"]


@contextmanager
def forked(box: Box, checkpoint: str) -> Generator[Box]:
    fork = box.from_checkpoint(checkpoint)
    try:
        yield fork
    finally:
        fork.kill()


@pytest.mark.parametrize("kind", ["full", "disk_only"])
def test_they_run_in_order_stop_at_a_failure_and_resume_on_wake(box: Box, kind: str) -> None:
    """Each runs once in a sandbox and in what is made from it; numbers are never used again."""
    checkpoint = box.ready_checkpoint("patched", kind=kind)
    patches = [add(box.client, checkpoint, WRITE.format(number)) for number in range(1, 5)]
    assert [each["sequence"] for each in patches] == [1, 2, 3, 4]
    with forked(box, checkpoint) as fork:
        assert fork.output("cat patched; cat arguments") == "1 blue\n2 blue\n3 blue\n0"
        assert fork.described()["patchError"].startswith("patch 3 failed (exit 1)")
        assert fork.output("echo usable") == "usable"
        fork.output("touch allowed; : > patched")
        child = fork.ready_checkpoint("of a fork", kind=kind)
        fork.hibernate()
        fork.wake()
        until(lambda: "patchError" not in fork.described(), "the end of the error")
        assert fork.output("cat patched") == "3 blue\n4 blue"
        fork.hibernate()
        fork.wake()
        assert fork.output("sleep 0.5; cat patched") == "3 blue\n4 blue"
        box.client.delete(f"/sandboxes/checkpoints/{checkpoint}/patches/{patches[3]['id']}")
        assert add(box.client, checkpoint, WRITE.format(5))["sequence"] == 5
        assert fork.output("cat patched") == "3 blue\n4 blue"
        with forked(fork, child) as grandchild:
            assert "5 blue" not in grandchild.output("cat patched").split("\n")[:1]
    assert box.run("ls patched")["exitCode"] != 0


def test_a_restore_runs_none(box: Box) -> None:
    checkpoint = box.ready_checkpoint("patched")
    add(box.client, checkpoint, "touch ~/patched")
    box.restore(checkpoint)
    assert box.run("sleep 0.5; ls patched")["exitCode"] != 0
