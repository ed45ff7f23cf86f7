"""Sizes of real machines (behaviour sections 25 and 27; acceptance lines Elasticity and Metadata)."""

from __future__ import annotations

import json
from collections.abc import Generator
from typing import Any

import pytest

from tests.support.box import Box, new_box
from tests.support.server import ServerProcess

pytestmark = [pytest.mark.machines, pytest.mark.timeout(300)]

MIB = 1 << 20
_SEEN = (
    "import json, os; shown = dict(line.split()[:2] for line in open('/proc/meminfo'));"
    "print(json.dumps([int(shown['MemTotal:']) // 1024, len(os.sched_getaffinity(0)), os.cpu_count()]))"
)
_FILL = (
    "import sys; sys.stdin.readline(); held = b'x' * (1300 << 20);print('held', flush=True); sys.stdin.read()"
)


@pytest.fixture
def box(shared_server: ServerProcess) -> Generator[Box]:
    # Nothing listens there: who asks the metadata service through a proxy gets no answer.
    proxy = {"http_proxy": "http://127.0.0.1:9", "no_proxy": "169.254.169.254"}
    with new_box(shared_server, memoryMB=1024, envs=proxy) as made:
        yield made


def put(box: Box, what: str, status: int, **body: Any) -> Any:
    answer = box.client.put(f"{box.path}/{what}", json=body)
    assert answer.status_code == status, answer.text
    return answer.json()


def inside(box: Box, path: str, body: object = None) -> tuple[int, Any]:
    """What the metadata service answers a program in the machine: status and body."""
    data = "" if body is None else f"-d '{json.dumps(body)}'"
    text = box.output(f"curl -s -w '\\n%{{http_code}}' {data} http://169.254.169.254{path}")
    answer, _, status = text.rpartition("\n")
    return int(status), json.loads(answer)


def seen(box: Box) -> tuple[int, int, int]:
    """What programs see: megabytes in all, processors for them, processors online."""
    megabytes, usable, online = json.loads(box.output(f'python3 -c "{_SEEN}"'))
    return megabytes, usable, online


def limits(box: Box) -> tuple[int, int]:
    """Megabytes and processor percentage, as the metadata service says."""
    status, told = inside(box, "/v1/limits")
    assert status == 200
    return told["memLimit"] // MIB, told["cpuLimitPercent"]


def test_a_machine_gets_another_size_while_its_programs_run(shared_server: ServerProcess, box: Box) -> None:
    """Grown memory is there when the call returns, for a program that ran before. What is used is not taken
    away. Everything that tells programs of their size tells the new one."""
    several = min(2, int(box.output("cat /sys/devices/system/cpu/possible").rpartition("-")[2] or 0) + 1)
    assert seen(box) == (1024, 1, 1)
    assert limits(box) == (1024, 100)
    with box.attached(box.start(f'python3 -c "{_FILL}"')) as filling:
        grown = box.ask("scale", 200, memoryMB=8192)
        filling.send(b"\n")
        filling.read(holding=b"held\n")
        assert grown == {
            "sandboxID": box.id,
            "memoryMB": 8192,
            "cpuPercent": 200,
            "ok": True,
            "migrated": False,
            "autoscaleDisabled": False,
        }
        assert seen(box) == (8192, several, several)
        assert limits(box) == (8192, 200)
        used = int(box.output("awk '/MemAvailable/ {print 8192 - int($2 / 1024)}' /proc/meminfo"))
        assert 1300 < used < 1800

        refused = box.ask("scale", 409, memoryMB=1024)
        assert refused["code"] == "oom_floor"
        assert inside(box, "/v1/scale", {"memoryMB": 1024})[0] == 409
        assert box.described()["memoryMB"] == 8192
        put(box, "limits", 200, memoryMB=4096, cpuPercent=100)
        assert seen(box) == (4096, 1, 1)
        assert limits(box) == (4096, 100)
        box.hibernate()
    assert (box.wake()["memoryMB"], seen(box), limits(box)) == (4096, (4096, 1, 1), (4096, 100))
    assert box.output("pgrep -c python3") == "1"


def test_a_machine_may_ask_for_itself_by_the_same_rules(box: Box) -> None:
    put(box, "autoscale", 200, enabled=True, minMemoryMB=1024, maxMemoryMB=8192)
    for body, status in (
        ({"memoryMB": 2048}, 400),
        ({"memoryMB": "4096"}, 400),
        ({"memoryMB": 4096, "cpuPercent": 400}, 400),
        ({}, 400),
    ):
        assert inside(box, "/v1/scale", body)[0] == status
    assert box.client.get(f"{box.path}/autoscale").json()["enabled"]
    assert inside(box, "/v1/scale", {"memoryMB": 4096}) == (
        200,
        {"ok": True, "memoryMB": 4096, "cpuPercent": 100},
    )
    assert not box.client.get(f"{box.path}/autoscale").json()["enabled"]
    assert (box.described()["memoryMB"], seen(box)) == (4096, (4096, 1, 1))
    put(box, "scaling-lock", 200, locked=True)
    assert inside(box, "/v1/scale", {"memoryMB": 1024})[1]["code"] == "scaling_locked"
    assert box.ask("scale", 403, memoryMB=1024)["code"] == "scaling_locked"
    assert limits(box) == (4096, 100)


def test_only_what_fills_a_smaller_machine_ends(box: Box) -> None:
    """The guest keeps to the size of now: one that meets its end loses a program and not its life."""
    box.ask("scale", 200, memoryMB=4096)
    box.ask("scale", 200, memoryMB=1024)
    filled = box.run("python3 -c \"held = b'x' * (3000 << 20)\"")
    assert filled["exitCode"] == 137
    assert box.output("echo still here") == "still here"
