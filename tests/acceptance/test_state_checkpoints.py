"""Checkpoints and forks of real machines: what goes on, what is a copy, and what is not."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import TypeVar

import pytest

from opencomputer.server.services.sandboxes.capture import LONGEST_STACK
from opencomputer.wire import frames
from tests.support.box import Box, Follower, create_box, new_box
from tests.support.server import ServerProcess

pytestmark = [pytest.mark.machines, pytest.mark.timeout(300)]

T = TypeVar("T")

COUNTER = (
    "exec python3 -u -c 'import time, itertools\nfor n in itertools.count(): print(n); time.sleep(0.002)'"
)

# One connection inside the machine and one to the outside, both older than any checkpoint.
CONNECTIONS = """exec python3 -u -c '
import socket, sys
listener = socket.create_server(("127.0.0.1", 0))
inner = socket.create_connection(listener.getsockname())
other = listener.accept()[0]
outer = socket.create_connection(("169.254.169.254", 80))
print("connected")
for line in sys.stdin:
    inner.sendall(line.encode())
    echoed = other.recv(100).decode().strip()
    try:
        outer.settimeout(20)
        outer.sendall(b"GET /v1/status HTTP/1.1\\r\\nhost: x\\r\\n\\r\\n")
        answer = outer.recv(12).decode() or "closed"
    except TimeoutError:
        answer = "hangs"
    except OSError:
        answer = "reset"
    print(echoed, answer)
'"""

PREPARE = """set -e
head -c 1000000 /dev/urandom > data
sha256sum data > sum
git init -q r
git -C r -c user.name=me -c user.email=me@example.com commit -q --allow-empty -m one
"""

IDENTITY = {
    "hostname": "hostname",
    "machine id": "cat /etc/machine-id",
    "boot id": "cat /run/opencomputer/boot_id",
    "kernel's boot id": "cat /proc/sys/kernel/random/boot_id",
    "random numbers": "od -An -N16 -tx1 /dev/urandom",
    "address": "curl -sS http://169.254.169.254/v1/status | grep -o 'sb-[0-9a-f]*'",
    "generation": "cat /run/opencomputer/generation; echo $OPENCOMPUTER_GENERATION",
}


@pytest.fixture
def box(shared_server: ServerProcess) -> Generator[Box]:
    with new_box(shared_server) as made:
        yield made


def all_at_once(calls: Sequence[Callable[[], T]]) -> list[T]:
    with ThreadPoolExecutor(len(calls)) as pool:
        return [each.result() for each in [pool.submit(call) for call in calls]]


def counted(follower: Follower) -> list[int]:
    return [int(line) for line in follower.lines()]


def test_the_source_goes_on_with_its_sessions_and_sockets(box: Box) -> None:
    """Commands that come meanwhile succeed, and nothing of the output is lost or doubled."""
    connections = box.start(CONNECTIONS)
    with box.attached(connections) as talking, box.attached(box.start(COUNTER)) as counting:
        talking.read(holding=b"connected\n")
        for number in range(3):
            checkpoint = box.checkpoint(f"number {number}")
            answers = all_at_once([lambda: box.output("echo $((6 * 7))")] * 4)
            assert answers == ["42"] * 4
            assert box.settled(checkpoint)["status"] == "ready"
            counting.read(holding=b"\n", times=len(counting.lines()) + 100)
        talking.send(b"hello\n")
        talking.read(holding=b"\n", times=2)
        # Older builds of runsc cut connections to the outside whenever memory is saved.
        assert talking.lines()[-1] in (b"hello HTTP/1.1 200", b"hello reset")
        assert counted(counting) == list(range(len(counting.lines())))
        assert counting.order.count(frames.EXIT) == 0


def test_what_comes_after_the_answer_is_not_in_the_checkpoint(box: Box) -> None:
    """However much has to be copied first."""
    box.output("head -c 80M /dev/urandom > big; mkdir many; cd many; seq 2000 | xargs touch")
    for number in range(2):
        assert box.write("state", b"before %d" % number).status_code == 204
        checkpoint = box.checkpoint(f"number {number}")
        assert box.write("state", b"after").status_code == 204
        box.settled(checkpoint)
        fork = box.from_checkpoint(checkpoint)
        assert fork.output("cat state") == f"before {number}"
        fork.kill()


def test_ten_forks_at_once_are_right_apart_and_themselves(box: Box) -> None:
    session = box.start(CONNECTIONS)
    with box.attached(session) as talking:
        talking.read(holding=b"connected\n")
    box.output(PREPARE)
    checkpoint = box.checkpoint("of ten")
    with ExitStack() as stack:
        # Before it is ready: the server makes them wait.
        forks = all_at_once([lambda: box.from_checkpoint(checkpoint)] * 10)
        for fork in forks:
            stack.callback(fork.kill)
        assert all(fork.description["memoryRestored"] for fork in forks)
        check = "sha256sum -c --quiet sum && git -C r fsck --strict && git -C r log --oneline | wc -l"
        assert [fork.output(check) for fork in forks] == ["1"] * 10
        for number, fork in enumerate(forks):
            assert fork.write(f"mine-{number}", b"x").status_code == 204
        seen = [fork.output("ls | grep mine") for fork in forks]
        assert seen == [f"mine-{number}" for number in range(10)]
        assert box.run("ls | grep mine")["stdout"] == ""
        assert_have_identities_of_their_own([box, *forks])
        for fork in forks[:2]:
            with fork.attached(session) as copy:
                copy.read(until=frames.SCROLLBACK_END)
                copy.send(b"hello\n")
                copy.read(holding=b"hello ")
                copy.read(holding=b"\n", times=2)
                assert copy.lines()[-1] in (b"hello reset", b"hello closed")


def assert_have_identities_of_their_own(boxes: Sequence[Box]) -> None:
    told: dict[str, list[str]] = {name: [] for name in IDENTITY}
    for box in boxes:
        lines = [box.output(command) for command in IDENTITY.values()]
        for name, line in zip(IDENTITY, lines, strict=True):
            told[name].append(line)
    assert told.pop("address") == [box.id for box in boxes]
    generations = told.pop("generation")
    assert generations == ["0\n0", *["1\n1"] * (len(boxes) - 1)]
    alike = {name for name, values in told.items() if len(set(values)) < len(boxes)}
    assert alike <= {"kernel's boot id"}  # the kernel's own file cannot be changed; ours can


def test_a_checkpoint_outlives_its_source_and_is_deleted_under_forks(
    shared_server: ServerProcess, box: Box
) -> None:
    source = create_box(shared_server, box.client)
    source.output("echo precious > file")
    checkpoint = source.ready_checkpoint("of the dead")
    source.kill()
    assert [each["id"] for each in source.checkpoints()] == [checkpoint]
    late = threading.Timer(0.3, lambda: box.client.delete(f"{source.path}/checkpoints/{checkpoint}"))
    late.start()
    with ExitStack() as stack:
        made: list[Box] = []
        while True:
            answer = box.client.post(f"/sandboxes/from-checkpoint/{checkpoint}", json={})
            if answer.status_code == 404:
                break
            assert answer.status_code == 201, answer.text
            made.append(Box(shared_server, box.client, answer.json()))
            stack.callback(made[-1].kill)
        assert [each.output("cat file") for each in made] == ["precious"] * len(made)
    late.join()
    assert source.checkpoints() == []


def test_retention_deletes_the_oldest_of_a_kind_or_nothing(box: Box) -> None:
    policy = {"mode": "delete_oldest", "maxCount": 2}
    full = box.ready_checkpoint("full")
    ids = [box.ready_checkpoint(f"{n}", kind="disk_only", retentionPolicy=policy) for n in range(3)]
    assert [each["id"] for each in box.checkpoints()] == [ids[2], ids[1], full]
    for each in ids[1:]:
        answer = box.client.post(f"/sandboxes/checkpoints/{each}/publish")
        assert answer.status_code == 200
    box.ask("checkpoints", 400, name="no room", kind="disk_only", retentionPolicy=policy)
    assert [each["id"] for each in box.checkpoints()] == [ids[2], ids[1], full]


def test_generations_are_as_good_as_the_first(shared_server: ServerProcess) -> None:
    """More of them than layers may lie on each other."""
    generations = LONGEST_STACK + 2
    with shared_server.client() as client:
        current = create_box(shared_server, client)
        current.start("exec sleep 8642")
        try:
            for number in range(generations):
                current.output(
                    f"echo {number} > file-{number}; echo {number} >> every; rm -f file-{number - 3}"
                )
                (fork,) = current.forks()
                current.kill()
                current = fork
            assert current.output("cat every").split() == [str(number) for number in range(generations)]
            left = {f"file-{number}" for number in range(generations - 3, generations)}
            assert left == set(current.output("ls | grep file-").split())
            assert current.output("pgrep -xc sleep; cat /run/opencomputer/generation") == f"1\n{generations}"
        finally:
            client.delete(current.path)
