"""Sandboxes that sleep and wake: by call, by an idle timeout, by being used (behaviour 4 and 5)."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest
from websockets.exceptions import ConnectionClosed

from opencomputer.wire import frames
from tests.acceptance.test_crash import COUNTER, assert_continues
from tests.support.box import Box, create_box, new_box
from tests.support.server import ServerProcess
from tests.support.waiting import until

pytestmark = [pytest.mark.machines, pytest.mark.timeout(300)]

COUNTING_SERVER = """exec python3 -u -c '
import http.server
class Count(http.server.BaseHTTPRequestHandler):
    number = 0
    def do_GET(self):
        Count.number += 1
        self.send_response(200); self.end_headers(); self.wfile.write(b"%d" % Count.number)
    def log_message(self, *_): pass
print("ready", flush=True)
http.server.HTTPServer(("127.0.0.1", 8123), Count).serve_forever()
'"""
NEXT = "curl -sS --retry 30 --retry-connrefused --retry-delay 1 http://127.0.0.1:8123/"
PERIOD = 4
CLOCKS = "python3 -c 'import time; print(time.time(), time.monotonic())'"

# A package without anything to download: as apt would install it, dpkg does.
INSTALL = """set -e
mkdir -p package/DEBIAN package/usr/local/bin
cat > package/DEBIAN/control <<'END'
Package: proof
Version: 1
Architecture: all
Maintainer: me <me@example.com>
Description: something that is installed
END
printf '#!/bin/sh\\necho installed\\n' > package/usr/local/bin/proof
chmod +x package/usr/local/bin/proof
dpkg-deb -b package proof.deb >/dev/null && sudo dpkg -i proof.deb >/dev/null
"""
FILL = """set -e
mkdir small
for n in $(seq 5); do head -c 500000 /dev/urandom > medium-$n; done
for n in $(seq 100); do echo $n > small/$n; done
head -c 100M /dev/urandom > big
find big medium-* small -type f -print0 | sort -z | xargs -0 sha256sum > sums
"""


@pytest.fixture
def box(shared_server: ServerProcess) -> Generator[Box]:
    with new_box(shared_server) as made:
        yield made


def status_of(box: Box) -> str:
    return box.described()["status"]


def test_everything_is_as_it_was_after_five_quick_cycles(shared_server: ServerProcess) -> None:
    """Files that were just written, without a sync; installed packages; processes and what they remember."""
    with new_box(shared_server, envs={"COLOUR": "blue"}, metadata={"for": "sleep"}) as box:
        with box.attached(box.start(COUNTING_SERVER)) as server:
            server.read(holding=b"ready\n")
        box.output(INSTALL)
        assert box.output(NEXT) == "1"
        box.output(FILL)
        before = box.described()
        for cycle in range(5):
            asleep = box.hibernate()
            assert (asleep["status"], status_of(box)) == ("hibernated", "hibernated")
            assert box.hibernate()["status"] == "hibernated"
            woken = box.wake()
            assert (woken["status"], woken["sandboxID"]) == ("running", box.id)
            assert box.output(NEXT) == str(cycle + 2)
        assert box.output("sha256sum -c --quiet sums && proof && echo $COLOUR") == "installed\nblue"
        assert box.output("findmnt -n ~ /home/sandbox /home || echo not shadowed") == "not shadowed"
        after = box.described()
        same = ("memoryMB", "diskMB", "cpuCount", "metadata", "timeout", "createdAt", "templateID")
        assert [after.get(name) for name in same] == [before.get(name) for name in same]


def test_clock_and_network_are_right_at_once(box: Box) -> None:
    _, monotonic = map(float, box.output(CLOCKS).split())
    box.hibernate()
    time.sleep(3)
    first = "curl -sS http://169.254.169.254/v1/status && echo && " + CLOCKS
    told, _, clocks = box.output(first).rpartition("\n")
    wall, later = map(float, clocks.split())
    assert abs(wall - time.time()) < 2
    assert later >= monotonic
    assert json.loads(told)["sandboxId"] == box.id
    box.hibernate()
    message = {"model": "x", "max_tokens": 5, "messages": [{"role": "user", "content": "hello"}]}
    url = "http://169.254.169.254/v1/model/anthropic/v1/messages"
    command = f"curl -sS -H 'content-type: application/json' -d '{json.dumps(message)}' {url}"
    assert json.loads(box.output(command))["role"] == "assistant"


def test_a_session_sleeps_too_and_loses_no_byte(box: Box) -> None:
    """Its sockets are closed, normally and without an exit: clients must not think that it ended."""
    session = box.start(COUNTER)
    with box.attached(session) as before:
        before.read(holding=b"\n", times=300)
        box.hibernate()
        with pytest.raises(ConnectionClosed):
            before.read(until=frames.EXIT)
        assert before.socket.close_code == 1000
    assert frames.EXIT not in before.order
    # Attaching wakes.
    with box.attached(session) as after:
        after.read(until=frames.SCROLLBACK_END)
        after.read(holding=b"\n", times=len(after.lines()) + 100)
        after.send(b"enough\n")
        after.read(until=frames.EXIT)
    assert_continues(before, after)
    assert frames.exit_code(after.got[frames.EXIT]) == 7


def test_fifty_requests_wake_it_once(shared_server: ServerProcess, box: Box) -> None:
    """One machine has answered them all."""
    with box.attached(box.start(COUNTING_SERVER)) as server:
        server.read(holding=b"ready\n")
    box.hibernate()
    began = threading.Barrier(50)

    def ask() -> int:
        began.wait()
        return int(box.output(NEXT))

    with shared_server.client() as client, ThreadPoolExecutor(50) as pool:
        client.get(box.path)
        answers = [each.result() for each in [pool.submit(ask) for _ in range(50)]]
    assert sorted(answers) == list(range(1, 51))


def test_a_kill_during_a_hibernation_is_final(shared_server: ServerProcess) -> None:
    """Either it is gone, or it wakes with all its files; and its machine is gone from the host."""
    with shared_server.client() as client:
        box = create_box(shared_server, client)
        box.output("head -c 200M /dev/urandom > big; sha256sum big > sum")
        hibernating = threading.Thread(target=lambda: client.post(f"{box.path}/hibernate"))
        hibernating.start()
        time.sleep(0.5)
        box.kill()
        hibernating.join()
        answer = client.post(f"{box.path}/exec/run", json={"cmd": "sh", "args": ["-c", "sha256sum -c sum"]})
        assert answer.status_code == 410 or answer.json()["exitCode"] == 0, answer.text
        assert answer.status_code == 410
        assert box.id not in {each["sandboxID"] for each in client.get("/sandboxes").json()}


def test_a_killed_sleeper_is_gone(shared_server: ServerProcess) -> None:
    with shared_server.client() as client:
        box = create_box(shared_server, client)
        box.hibernate()
        box.kill()
        box.ask("wake", 410)
        assert box.id not in {each["sandboxID"] for each in client.get("/sandboxes").json()}


# Idle timeouts


def test_an_unused_sandbox_sleeps_and_wakes_when_it_is_used(shared_server: ServerProcess) -> None:
    """Being looked at is no use of it."""
    with new_box(shared_server, timeout=1) as box:
        until(lambda: status_of(box) == "hibernated", "sleep")
        assert box.output("echo awake") == "awake"
        assert box.described()["timeout"] == 1
        until(lambda: status_of(box) == "hibernated", "sleep")
        box.ask("timeout", 204, timeout=0)
        assert box.output("echo awake") == "awake"
        time.sleep(3)
        assert status_of(box) == "running"


@pytest.fixture
def short(shared_server: ServerProcess) -> Generator[list[Box]]:
    """Three sandboxes that fall asleep when they are not used for `PERIOD` seconds."""
    with ExitStack() as stack:
        yield [stack.enter_context(new_box(shared_server, timeout=PERIOD)) for _ in range(3)]


def test_what_is_used_stays_awake(short: list[Box]) -> None:
    """By calls that fail, by a command that is silent for long, by output on an attached session."""
    poked, busy, watched = short
    with watched.attached(watched.start("while sleep 0.5; do echo tick; done")) as ticking:
        reading = threading.Thread(target=ticking.read, kwargs={"holding": b"tick", "times": 4 * PERIOD})
        silent = threading.Thread(target=busy.output, args=(f"sleep {2 * PERIOD}",))
        reading.start()
        silent.start()
        for _ in range(2 * PERIOD):
            time.sleep(1)
            assert poked.read("missing").status_code == 404
            assert [status_of(each) for each in short] == ["running"] * 3
        silent.join()
        reading.join()
        assert len(ticking.lines()) >= 4 * PERIOD
    until(lambda: status_of(poked) == "hibernated", "sleep of the one that is not poked any more")
