"""Going back to a checkpoint, on real machines (behaviour section 16)."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from opencomputer.wire import frames
from tests.support.box import Box, new_box
from tests.support.server import ServerProcess

pytestmark = [pytest.mark.machines, pytest.mark.timeout(300)]

REMEMBERING = "exec python3 -u -c 'import sys\nprint(\"ready\")\nfor line in sys.stdin: print(line.strip())'"


@pytest.fixture
def box(shared_server: ServerProcess) -> Generator[Box]:
    with new_box(shared_server, envs={"COLOUR": "blue"}, timeout=3600) as made:
        yield made


def test_it_may_be_repeated_and_everything_later_is_gone(box: Box) -> None:
    """Files, processes and sessions are as of then; the sandbox is still the same one."""
    session = box.start(REMEMBERING)
    with box.attached(session) as talking:
        talking.send(b"before\n")
        talking.read(holding=b"before\n")
    box.output("echo then > state; mkdir kept; echo kept > kept/file")
    checkpoint = box.checkpoint("then")
    described = box.described()
    for number in range(3):
        later = box.start("exec sleep 9753")
        box.output(f"echo {number} > state; rm -r kept; echo later > later; mkdir kept; echo x > kept/other")
        with box.attached(session) as talking:
            talking.send(b"later %d\n" % number)
            talking.read(holding=b"later")
            box.restore(checkpoint)
            # At once: what comes next waits until it is done.
            assert box.output("cat state; ls; ls kept; echo $COLOUR") == "then\nkept\nstate\nfile\nblue"
        assert box.run("pgrep -x sleep")["exitCode"] == 1
        listed = {each["sessionID"] for each in box.client.get(f"{box.path}/exec").json()}
        assert session in listed
        assert later not in listed
        with box.attached(session) as talking:
            talking.read(until=frames.SCROLLBACK_END)
            assert talking.lines() == [b"ready", b"before"]
            talking.send(b"again\n")
            talking.read(holding=b"again\n")
    same = ("sandboxID", "memoryMB", "diskMB", "cpuCount", "timeout", "createdAt")
    assert [box.described().get(name) for name in same] == [described.get(name) for name in same]
    assert box.output("cat /run/opencomputer/generation") == "3"


def test_one_of_files_only_starts_programs_anew(box: Box) -> None:
    box.output("echo then > state")
    checkpoint = box.checkpoint("files", kind="disk_only")
    box.start("exec sleep 9753")
    box.output("echo later > state")
    box.restore(checkpoint)
    assert box.output("cat state; pgrep -xc sleep || true") == "then\n0"


def test_what_is_damaged_is_an_error_and_the_sandbox_is_as_before(
    shared_server: ServerProcess, box: Box
) -> None:
    """Missing copies are made again; but originals can only be found to be damaged."""
    before = files_of_memory(shared_server)
    box.start("exec sleep 9753")
    checkpoint = box.ready_checkpoint("to be damaged")
    made = files_of_memory(shared_server) - before
    for path in made:
        if "blobs" not in path.parts:
            path.unlink()
    box.output("echo later > state")
    box.restore(checkpoint)
    assert box.output("test -e state || pgrep -xc sleep") == "1"

    box.output("echo later > state; pkill -x sleep")
    later = box.start("exec sleep 9754")
    for path in files_of_memory(shared_server) - before:
        flip(path)
    answer = box.client.post(f"{box.path}/checkpoints/{checkpoint}/restore")
    assert answer.status_code >= 500, answer.text
    assert box.output("cat state; pgrep -xc sleep") == "later\n1"
    assert box.session(later)["running"]
    assert box.described()["status"] == "running"
    answer = box.client.post(f"/sandboxes/from-checkpoint/{checkpoint}", json={})
    if answer.status_code == 201:
        fork = Box(shared_server, box.client, answer.json())
        assert fork.description["memoryRestored"] is False
        assert fork.run("pgrep -x sleep; cat state")["stdout"] == ""
        fork.kill()
    else:
        assert answer.status_code >= 500, answer.text


def files_of_memory(server: ServerProcess) -> set[Path]:
    """Files of kept memory images: originals and copies."""
    folders = [path for path in server.data.rglob("memories") if path.is_dir()]
    return {path for folder in folders for path in folder.rglob("*") if path.is_file()}


def flip(path: Path) -> None:
    """Change some bytes all over a file."""
    size = path.stat().st_size
    with path.open("r+b") as file:
        for place in range(0, size, max(1, size // 16)):
            file.seek(place)
            (byte,) = file.read(1)
            file.seek(place)
            file.write(bytes([byte ^ 0xFF]))


def test_none_is_restored_from_another_sandbox(shared_server: ServerProcess, box: Box) -> None:
    with new_box(shared_server) as other:
        foreign = other.checkpoint("foreign")
        box.ask(f"checkpoints/{foreign}/restore", 400)
    box.ask("checkpoints/cp-00000000/restore", 404)
    assert box.output("echo works") == "works"
