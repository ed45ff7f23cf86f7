"""Programs that mean harm reach neither the host nor other sandboxes, and mostly not even the guest."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest
from websockets.exceptions import ConnectionClosed

from opencomputer.wire import frames
from tests.support.box import Box, new_box
from tests.support.host_state import machines_on_host
from tests.support.server import ServerProcess

pytestmark = pytest.mark.machines

MIB = 1 << 20
SOON_SECONDS = 60.0
BOMB_SECONDS = 120.0
"""How late a bomb may end: the timer that ends it gets its turn from a processor that the bomb keeps busy."""


@pytest.fixture(scope="module")
def neighbour(server: ServerProcess) -> Generator[Box]:
    with new_box(server) as made:
        yield made


@pytest.fixture
def box(server: ServerProcess) -> Generator[Box]:
    with new_box(server) as made:
        yield made


def assert_works(box: Box) -> None:
    begun = time.monotonic()
    assert box.output("echo $((6 * 7))") == "42"
    assert time.monotonic() - begun < SOON_SECONDS


def resident_bytes(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) * 1024


def guest_bytes(box: Box) -> int:
    return int(box.output("awk '/VmRSS/ {print $2}' /proc/1/status")) * 1024


def wait_for_work(box: Box, program: str, ticks: int) -> None:
    """Until the program has used so many hundredths of a second of processor."""
    box.output(
        f"until [ $(awk '{{print $14 + $15}}' /proc/$(pgrep -xo {program})/stat) -ge {ticks} ]; "
        "do sleep 0.2; done"
    )


def test_a_fork_bomb_does_not_disturb_the_neighbour(server: ServerProcess, neighbour: Box, box: Box) -> None:
    box.start("bomb() { bomb | bomb & }; bomb; sleep 600")
    for _ in range(5):
        assert_works(neighbour)
    box.kill()
    assert_works(neighbour)


@pytest.mark.timeout(3 * BOMB_SECONDS)
def test_a_timeout_clears_a_fork_bomb(box: Box) -> None:
    """And the next command works at once."""
    box.client.timeout = BOMB_SECONDS
    result = box.run("bomb() { bomb | bomb & }; bomb; sleep 600", timeout=2)
    assert (result["exitCode"], result["reason"]) == (137, "timeout")
    assert_works(box)


def test_output_that_nobody_reads_takes_no_memory(server: ServerProcess, box: Box) -> None:
    """Neither without a client, nor with one that has stopped reading, in the guest or in the server."""
    assert server.process is not None
    session_id = box.start("exec yes 'a line of output that never ends'")
    wait_for_work(box, "yes", 20)
    before = resident_bytes(server.process.pid), guest_bytes(box)
    with box.attached(session_id):
        wait_for_work(box, "yes", 100)
        after = resident_bytes(server.process.pid), guest_bytes(box)
    assert after[0] - before[0] < 24 * MIB
    assert after[1] - before[1] < 16 * MIB


def test_a_full_disk_is_the_sandboxs_own_trouble(server: ServerProcess, neighbour: Box, box: Box) -> None:
    """507 for more, everything else works, and the host gives no more than was promised."""
    result = box.run("fallocate -l 19800M most; dd if=/dev/zero of=rest bs=1M")
    assert "No space left" in result["stderr"]
    refused = box.write("more", bytes(8 * MIB))
    assert (refused.status_code, refused.json()["code"]) == (507, "disk_full")
    streamed = box.write("more", iter([bytes(MIB)] * 8))
    assert streamed.status_code == 507
    assert box.read("more").status_code == 404
    disks = [file.stat().st_size for file in (server.data / "machines").glob("*/disk.ext4")]
    assert all(size <= 20480 * MIB for size in disks)
    assert neighbour.write("more", bytes(8 * MIB)).status_code == 204
    assert_works(box)
    box.output("rm most rest")
    assert box.write("more", bytes(8 * MIB)).status_code == 204


@pytest.mark.parametrize(
    "script",
    ["python3 -c 'x = [b\"x\" * (32 << 20) for _ in range(60)]'", "head -c 1500M /dev/zero >/dev/shm/x"],
    ids=["process", "file in memory"],
)
def test_a_memory_hog_is_the_sandboxs_own_trouble(server: ServerProcess, neighbour: Box, script: str) -> None:
    """The host gives no more than was promised; the answer is one that a client can understand."""
    with new_box(server, memoryMB=1024) as box:
        body = {"cmd": "sh", "args": ["-c", script]}
        answer = box.client.post(f"{box.path}/exec/run", json=body)
        assert (answer.status_code, answer.json().get("code")) != (500, "internal")
        assert answer.json().get("exitCode") != 0
    assert_works(neighbour)


def test_killing_everything_as_the_user_harms_only_the_users_programs(box: Box) -> None:
    sleeper = box.start("exec sleep 600")
    box.run("kill -9 -1")
    assert_works(box)
    with box.attached(sleeper) as follower:
        follower.read(until=frames.EXIT)
    assert frames.exit_code(follower.got[frames.EXIT]) == 137


def test_killing_everything_as_root_leaves_the_guest(box: Box) -> None:
    box.run("sudo -n sh -c 'kill -9 -1'")
    assert_works(box)
    box.run(
        "sudo -n sh -c 'for number in HUP INT QUIT USR1 USR2 TERM CHLD PIPE CONT; do kill -$number 1; done'"
    )
    assert_works(box)
    box.run("sudo -n sh -c 'rm -rf /.oc/*; mount -o remount,rw /.oc; umount /.oc'")
    assert_works(box)


def test_root_may_end_its_own_machine_only(server: ServerProcess, neighbour: Box, box: Box) -> None:
    """As by switching it off: told as such, and everything of it goes from the host."""
    answer = box.client.post(f"{box.path}/exec/run", json={"cmd": "sudo -n sh -c 'kill -9 1'; sleep 60"})
    assert answer.status_code in (200, 410, 503)
    deadline = time.monotonic() + SOON_SECONDS
    while box.client.get(box.path).json()["status"] == "running":
        assert time.monotonic() < deadline
    assert box.client.get(box.path).json()["stopReason"] == "crash"
    gone = box.client.post(f"{box.path}/exec/run", json={"cmd": "true"})
    assert (gone.status_code, gone.json()["code"]) == (410, "sandbox_stopped")
    assert_works(neighbour)


@pytest.fixture
def canary(tmp_path: Path) -> Path:
    """A file of the host that no sandbox may see or touch."""
    file = tmp_path / "canary"
    file.write_text("sings on the host only")
    return file


def test_no_path_leads_to_the_host(box: Box, canary: Path) -> None:
    """Read, list, write and remove, by names, links and the back doors of /proc."""
    box.output(f"ln -s {canary} file; ln -s {canary.parent} folder; ln -s / root; ln -s loop loop")
    ways = [
        str(canary),
        f"{'../' * 30}{str(canary)[1:]}",
        f"/home/sandbox/../../../..{canary}",
        f"/proc/self/root{canary}",
        f"/proc/1/root{canary}",
        f"/proc/self/cwd/{'../' * 30}{str(canary)[1:]}",
        f"/.oc/../..{canary}",
        f"root{canary}",
        "file",
        "folder/canary",
    ]
    for way in ways:
        answer = box.read(way)
        assert answer.status_code in (400, 403, 404), (way, answer.text)
        listing = box.client.get(f"{box.path}/files/list", params={"path": way.removesuffix("canary")})
        assert "canary" not in listing.text
    assert box.read("loop").status_code in (400, 404, 409)
    for way in ways:
        box.write(way, b"stolen")
        assert canary.read_text() == "sings on the host only", way
    for way in [*ways, str(canary.parent), "folder/", f"/proc/1/root{canary.parent}"]:
        box.client.delete(f"{box.path}/files", params={"path": way})
        assert canary.read_text() == "sings on the host only", way
    assert_works(box)


def test_what_is_secret_on_the_host_is_not_inside(server: ServerProcess, box: Box) -> None:
    """Nothing of the host's files, processes, environment or other machines."""
    for file in ("/etc/shadow", "/etc/hostname", "/proc/cmdline", "/proc/1/environ", "/proc/1/cmdline"):
        with suppress(PermissionError):
            host = Path(file).read_bytes()
            assert not host or box.read(file).content != host, file
    machine = next(iter(machines_on_host(server.node_tag, server.data)["folders"]))
    everything = box.output(
        'sudo -n sh -c \'cat /proc/mounts /proc/*/cmdline /proc/*/environ | tr "\\0" " "\''
    )
    for secret in (machine, str(server.data), server.api_key, server.node_tag):
        assert secret not in everything


@pytest.mark.parametrize(
    "name", ["ünï-✓", "a\nb", "-rf", " ", "a%2Fb", "*?[", "'\"$(id)`", "a\\b", "x" * 255], ids=repr
)
def test_odd_names_are_names(box: Box, name: str) -> None:
    path = f"/tmp/odd/{name}"
    assert box.write(path, name.encode()).status_code == 204
    assert box.read(path).text == name
    listed = box.client.get(f"{box.path}/files/list", params={"path": "/tmp/odd"}).json()
    assert [each["name"] for each in listed] == [name]
    assert box.client.delete(f"{box.path}/files", params={"path": path}).status_code == 204
    assert box.read(path).status_code == 404


def test_impossible_names_are_refused(server: ServerProcess, box: Box) -> None:
    for path in ("x" * 256, "/tmp/" + "x/" * 3000 + "x", "a\0b", ""):
        for answer in (box.read(path), box.write(path, b"x")):
            assert answer.status_code in (400, 404), (path, answer.status_code)
    odd = httpx.get(
        f"{server.url}/api{box.path}/files?path=%ff%fe{quote('x')}", headers={"X-API-Key": server.api_key}
    )
    assert odd.status_code in (400, 404)
    assert_works(box)


def test_messages_that_are_too_large_end_their_own_connection_only(box: Box) -> None:
    session_id = box.start("exec cat")
    with box.attached(session_id) as other, box.attached(session_id) as greedy:
        with suppress(ConnectionClosed):
            greedy.socket.send(frames.encode(frames.STDIN, bytes(64 * MIB)))
        with pytest.raises(ConnectionClosed):
            greedy.read(until=frames.EXIT)
        huge = {"cmd": "true", "envs": {"X": "x" * (32 * MIB)}}
        assert box.client.post(f"{box.path}/exec/run", json=huge).status_code in (400, 413)
        other.send(b"still here\n")
        other.read(holding=b"still here\n")
    assert_works(box)
