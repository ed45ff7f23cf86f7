"""Create and exec on real machines, as the acceptance catalogue has them."""

from __future__ import annotations

import json
import time
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import httpx
import pytest

from opencomputer.server.examination.check import Check
from opencomputer.server.examination.leftovers import check_leftovers
from tests.support.box import Box, create_box, new_box
from tests.support.server import ServerProcess
from tests.support.waiting import eventually

pytestmark = pytest.mark.machines

OWN = ["HOME=/home/sandbox", "USER=sandbox", "LOGNAME=sandbox", "SHELL=/bin/bash", "LANG=en_US.UTF-8"]
IDENTITY = """
hostname; cat /etc/machine-id
python3 -c 'import random, uuid; print(random.random(), uuid.uuid4())'; head -c 16 /dev/urandom | od -An -tx1
node -e 'console.log(crypto.randomUUID())'
"""
IDENTITY_LINES = 5
LONG_BEFORE_IT_ENDS = 90.0
"""Seconds, of a program that would run for ten minutes, on a host that is busy."""


@pytest.fixture(scope="module")
def server(shared_server: ServerProcess) -> ServerProcess:
    """Nothing here is done to the node."""
    return shared_server


@pytest.fixture(scope="module")
def box(server: ServerProcess) -> Generator[Box]:
    with new_box(server) as made:
        yield made


@pytest.mark.anyio
async def test_the_doctor_finds_a_working_node_whole(server: ServerProcess, box: Box) -> None:
    """What it looks for on the host is where a node has it. The pool may be at work at any moment."""

    def faults() -> list[Check]:
        return [check for check in check_leftovers(server.data, running=True) if check.status != "ok"]

    assert len(check_leftovers(server.data, running=True)) == 2
    await eventually(lambda: not faults(), "a sound node")


def test_a_new_sandbox_works_at_once_with_exact_defaults(server: ServerProcess) -> None:
    """Directory, user, environment, and what was asked for; nothing of a rehearsal or an earlier owner."""
    with new_box(server, envs={"COLOUR": "blue", "HOME": "/tmp"}, metadata={"for": "us"}) as box:
        assert box.output("pwd; id -u; id -g; umask; echo $COLOUR $HOME").split() == [
            "/home/sandbox",
            "1000",
            "1000",
            "0022",
            "blue",
            "/tmp",
        ]
        assert box.description["metadata"] == {"for": "us"}
    with new_box(server) as box:
        environment = box.output("env").splitlines()
        assert set(OWN) <= set(environment)
        path = next(line for line in environment if line.startswith("PATH=")).removeprefix("PATH=")
        assert path.split(":")[:2] == ["/usr/local/bin", "/usr/local/sbin"]
        assert not [line for line in environment if line.startswith(("OC_TOKEN", "COLOUR", "PYTHONHOME"))]
        assert box.output("ls -A; ls -A /tmp /var/tmp").split() == [
            ".bash_logout",
            ".bashrc",
            ".profile",
            "/tmp:",
            "/var/tmp:",
        ]
        now = int(box.output("date +%s"))
        assert abs(now - time.time()) < 2
        shape = {name: box.description[name] for name in ("memoryMB", "cpuCount", "diskMB", "timeout")}
        assert shape == {"memoryMB": 4096, "cpuCount": 1, "diskMB": 20480, "timeout": 0}


def test_ten_at_once_are_ten_with_an_identity_each(server: ServerProcess) -> None:
    """Claimed from the pool or started, no two share a name, an id, a number or a key."""
    with server.client() as client, ExitStack() as stack, ThreadPoolExecutor(10) as threads:
        boxes = [each.result() for each in [threads.submit(create_box, server, client) for _ in range(10)]]
        for box in boxes:
            stack.callback(box.kill)
        asked = [threads.submit(box.output, IDENTITY) for box in boxes]
        found = [each.result().splitlines() for each in asked]
        hosts = [box.output("hostname -i; ip -4 -o addr show eth0 | awk '{print $4}'") for box in boxes]
    assert {len(lines) for lines in found} == {IDENTITY_LINES}
    for line in range(IDENTITY_LINES):
        assert len({lines[line] for lines in found}) == 10, [lines[line] for lines in found]
    assert len(set(hosts)) == 10


def test_what_cannot_be_created_leaves_no_trace(server: ServerProcess) -> None:
    """Unknown template 404, sizes that are not offered 400."""
    with server.client() as client:
        before = _ids(client)
        for body, status in (
            ({"templateID": "no-such"}, 404),
            ({"memoryMB": 5}, 400),
            ({"diskMB": 1}, 400),
            ({"timeout": -1}, 400),
            ({"envs": {"A=B": "x"}}, 400),
        ):
            assert client.post("/sandboxes", json=body).status_code == status, body
        assert _ids(client) == before


def _ids(client: httpx.Client) -> set[str]:
    """Every sandbox that somebody has made; those of durable sessions come and go by themselves."""
    every = client.get("/sandboxes?status=all").json()
    return {each["sandboxID"] for each in every if "oc.session" not in each["metadata"]}


def test_a_killed_sandbox_is_gone(server: ServerProcess) -> None:
    with new_box(server) as box:
        box.kill()
        box.kill()
        answer = box.client.post(f"{box.path}/exec/run", json={"cmd": "true"})
        assert (answer.status_code, answer.json()["code"]) == (410, "sandbox_stopped")
        assert box.id not in [each["sandboxID"] for each in box.client.get("/sandboxes").json()]


def test_fast_commands_report_their_own_exit_code(box: Box) -> None:
    """Three hundred, eight at a time."""
    with ThreadPoolExecutor(8) as threads:
        asked = [threads.submit(box.run, f"exit {number % 256}") for number in range(300)]
        codes = [each.result()["exitCode"] for each in asked]
    assert codes == [number % 256 for number in range(300)]


def test_output_arrives_whole(box: Box) -> None:
    """Ninety thousand bytes of each stream, and characters of several bytes."""
    result = box.run("head -c 90000 /dev/zero | tr '\\0' x; head -c 90000 /dev/zero | tr '\\0' y >&2")
    assert (result["stdout"], result["stderr"]) == ("x" * 90000, "y" * 90000)
    assert "truncated" not in result
    coffee = box.run("python3 -c 'print(\"☕\" * 30000)'")["stdout"]
    assert coffee == "☕" * 30000 + "\n"


def test_too_much_output_keeps_its_end(box: Box) -> None:
    result = box.run("seq 400000")
    assert result["truncated"]
    assert result["stdout"].endswith("\n399999\n400000\n")
    assert 500_000 < len(result["stdout"]) <= 1 << 20


def test_a_timeout_kills_the_tree_and_not_the_neighbours(box: Box) -> None:
    bystander = box.start("exec sleep 700")
    begun = time.monotonic()
    result = box.run("setsid sleep 701 & (sleep 702 &) ; sleep 703", timeout=1)
    assert time.monotonic() - begun < LONG_BEFORE_IT_ENDS
    assert (result["exitCode"], result["reason"]) == (137, "timeout")
    assert result["stderr"].endswith("\n")
    assert box.output("pgrep -x sleep | wc -l") == "1"
    assert box.session(bystander)["running"]
    assert box.client.post(f"{box.path}/exec/{bystander}/kill", json={}).status_code == 204


def test_a_background_child_does_not_hold_the_answer(box: Box) -> None:
    begun = time.monotonic()
    assert box.run("sleep 704 & echo started")["stdout"] == "started\n"
    assert time.monotonic() - begun < LONG_BEFORE_IT_ENDS
    assert box.output("pgrep -xf 'sleep 704' | wc -l; pkill -xf 'sleep 704'") == "1"


def test_standard_input_is_at_its_end(box: Box) -> None:
    """Programs that read it end at once."""
    assert box.run("cat; python3 -; read x; echo $?", timeout=10)["stdout"] == "1\n"


def test_what_cannot_be_executed(box: Box) -> None:
    """127 and 126, by a shell and directly; a directory that is not there is an error."""
    box.write("plain.txt", b"text")
    assert box.run("no-such-program")["exitCode"] == 127
    assert box.run("./plain.txt")["exitCode"] == 126
    for command, code in (("no-such-program", 127), ("/home/sandbox/plain.txt", 126)):
        answer = box.client.post(f"{box.path}/exec/run", json={"cmd": command, "args": ["x"]}).json()
        assert answer["exitCode"] == code
        assert answer["stderr"]
    assert box.run("true", cwd="/no/such/folder")["exitCode"] != 0


def test_a_signal_is_reported_with_its_name(box: Box) -> None:
    result = box.run("kill -TERM $$")
    assert (result["exitCode"], result["signal"]) == (143, "SIGTERM")


def test_a_repeated_request_runs_once(box: Box) -> None:
    """With one idempotency key, at the same time and later."""
    body = {"cmd": "sh", "args": ["-c", "echo run >> runs; wc -l < runs"]}
    headers = {"Idempotency-Key": "once"}

    def ask(_: int) -> str:
        answer = box.client.post(f"{box.path}/exec/run", json=body, headers=headers)
        return json.dumps({name: answer.json().get(name) for name in ("exitCode", "stdout")})

    with ThreadPoolExecutor(5) as threads:
        answers = set(threads.map(ask, range(5)))
    assert {*answers, ask(0)} == {json.dumps({"exitCode": 0, "stdout": "1\n"})}
    assert box.output("wc -l < runs") == "1"
