"""A node that is killed while it saves, copies, puts to sleep, wakes, restores, reboots and builds.

OPENCOMPUTER_TEST_CRASHES says how often; a few times, unless told otherwise.
"""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import signal
import threading
from collections.abc import Generator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

import httpx
import pytest

from opencomputer.server.stores.artefacts.store import GRACE, BlobArtefacts
from opencomputer.server.stores.sql.database import Database
from opencomputer.server.stores.sql.snapshots import SqlSnapshotStore
from tests.acceptance.test_half_made import disagreements, telling
from tests.support.box import Box, create_box, new_box
from tests.support.host_state import left_after_a_moment, processes_with
from tests.support.real_clock import RealClock
from tests.support.server import ServerProcess
from tests.support.waiting import until

CRASHES = int(os.environ.get("OPENCOMPUTER_TEST_CRASHES", "2"))
SEED = 20261130
OWNERS = 3
REFUSALS = {409, 503}

pytestmark = [pytest.mark.machines, pytest.mark.timeout(300 + 60 * CRASHES)]


@pytest.fixture
def box(server: ServerProcess) -> Generator[Box]:
    with new_box(server) as made:
        yield made


def end_machines(server: ServerProcess) -> None:
    """As an end of the host does it: nothing of any machine runs on."""

    def ended() -> bool:
        thaw(server)  # what is frozen does not even end
        left = processes_with(f"{server.data}/machines/")
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return not left

    until(ended, "the end of all machines")


def thaw(server: ServerProcess) -> None:
    for name, text in (("freezer.state", "THAWED"), ("cgroup.freeze", "0")):
        for file in Path("/sys/fs/cgroup").glob(f"**/opencomputer-{server.node_tag}/m*/{name}"):
            with suppress(OSError):
                file.write_text(text)


def remove_copies(server: ServerProcess) -> None:
    """What an end of the host may take: all that is not durable."""
    for name in ("layers", "memories"):
        for copy in (server.data / "artefacts" / name).iterdir():
            shutil.rmtree(copy)


def test_sleepers_survive_stops_crashes_and_an_end_of_the_host(server: ServerProcess, box: Box) -> None:
    """With memory and files. A checkpoint survives its source, which does not survive the host."""
    session = box.start("exec python3 -u -c 'import sys\nfor n, line in enumerate(sys.stdin): print(n)'")
    box.output("head -c 20M /dev/urandom > big; sha256sum big > sum")
    with new_box(server) as awake:
        awake.output("echo precious > file")
        checkpoint = awake.ready_checkpoint("of one that is awake")

        def stop() -> None:
            server.stop()

        def kill() -> None:
            server.kill()

        def end_host() -> None:
            server.kill()
            end_machines(server)
            remove_copies(server)

        for number, end in enumerate((stop, kill, end_host)):
            with box.attached(session) as talking:
                talking.send(b"next\n")
                talking.read(holding=b"%d\n" % number)
            box.hibernate()
            end()
            server.start()
            assert box.described()["status"] == "hibernated"
            assert box.output("sha256sum -c --quiet sum; pgrep -xc python3") == "1"
            assert box.session(session)["running"]
        assert awake.described()["status"] == "stopped"
        fork = awake.from_checkpoint(checkpoint)
        assert fork.output("cat file") == "precious"
        fork.kill()


@dataclass
class Known:
    """What an owner was told, and what was under way. `may_hold` is what the sandbox's file may say."""

    box: Box
    holds: int = 0
    may_hold: set[int] = field(default_factory=set[int])
    checkpoints: dict[str, int] = field(default_factory=dict[str, int])


class Owner(threading.Thread):
    """Does everything there is to do with one sandbox, until the node is gone."""

    def __init__(self, known: Known, client: httpx.Client, seed: int, faults: list[str]) -> None:
        super().__init__()
        self._known = known
        self._box = Box(known.box.server, client, known.box.description)
        self._random = random.Random(seed)
        self._faults = faults

    def run(self) -> None:
        acts = (
            self._write,
            self._checkpoint,
            self._fork,
            self._fork_live,
            self._sleep,
            self._wake,
            self._restore,
            self._reboot,
            self._scale,
            self._build,
        )
        with self._box.client:
            try:
                while True:
                    self._random.choice(acts)()
            except httpx.TransportError:
                return

    def _post(self, path: str, body: object) -> httpx.Response | None:
        """The answer, if it is one of success."""
        answer = self._box.client.post(path, json=body)
        if answer.is_success:
            return answer
        if answer.status_code not in REFUSALS:
            self._faults.append(f"{path}: {answer.status_code} {answer.text}")
        return None

    def _write(self) -> None:
        number = self._random.randrange(1 << 40)
        self._known.may_hold = {self._known.holds, number}
        if self._box.write("state", b"%d" % number).status_code == 204:
            self._known.holds = number
            self._known.may_hold = {number}

    def _checkpoint(self) -> None:
        kind = self._random.choice(("full", "disk_only"))
        policy = {"mode": "delete_oldest", "maxCount": 2}
        body = {"name": f"{self._random.random()}", "kind": kind, "retentionPolicy": policy}
        if answer := self._post(f"{self._box.path}/checkpoints", body):
            self._known.checkpoints[answer.json()["id"]] = self._known.holds

    def _some_checkpoint(self) -> str | None:
        ready = [each["id"] for each in self._box.checkpoints() if each["status"] == "ready"]
        return self._random.choice(ready) if ready else None

    def _fork(self) -> None:
        if checkpoint := self._some_checkpoint():
            answer = self._post(f"/sandboxes/from-checkpoint/{checkpoint}", {})
            if answer and checkpoint in self._known.checkpoints:
                self._check_and_kill(answer.json(), self._known.checkpoints[checkpoint])

    def _fork_live(self) -> None:
        if answer := self._post(f"{self._box.path}/fork", {"count": 2}):
            for each in answer.json():
                self._check_and_kill(each, self._known.holds)

    def _check_and_kill(self, description: dict[str, object], expected: int) -> None:
        fork = Box(self._box.server, self._box.client, description)
        told = fork.read("state").text
        if told != str(expected):
            self._faults.append(f"a fork holds {told} instead of {expected}")
        fork.kill()

    def _sleep(self) -> None:
        if self._box.described()["status"] == "running":
            self._post(f"{self._box.path}/hibernate", {})

    def _wake(self) -> None:
        self._post(f"{self._box.path}/wake", {})

    def _restore(self) -> None:
        checkpoint = self._some_checkpoint()
        if checkpoint is None or checkpoint not in self._known.checkpoints:
            return
        if self._box.described()["status"] != "running":
            return
        then = self._known.checkpoints[checkpoint]
        self._known.may_hold = {self._known.holds, then}
        if self._post(f"{self._box.path}/checkpoints/{checkpoint}/restore", {}):
            self._known.holds = then
        self._known.may_hold = {self._known.holds}

    def _reboot(self) -> None:
        if self._box.described()["status"] == "running":
            how = self._random.choice(("reboot", "power-cycle"))
            self._post(f"{self._box.path}/{how}", {})

    def _scale(self) -> None:
        if self._box.described()["status"] == "running":
            memory_mb = self._random.choice((1024, 4096, 8192))
            self._post(f"{self._box.path}/scale", {"memoryMB": memory_mb})

    def _build(self) -> None:
        number = self._random.randrange(1 << 40)
        steps = [{"type": "run", "args": {"commands": ["echo first"]}}]
        steps += [{"type": "run", "args": {"commands": [f"echo {number} > ~/built"]}}]
        self._post("/images", {"image": {"base": "base", "steps": steps}})


def crash_under_load(server: ServerProcess, known: list[Known], chance: random.Random) -> list[str]:
    """What the owners found wrong before the crash."""
    faults: list[str] = []
    owners = [Owner(each, server.client(), chance.randrange(1 << 30), faults) for each in known]
    for owner in owners:
        owner.start()
    threading.Event().wait(chance.uniform(0.3, 3.0))
    server.kill()
    for owner in owners:
        owner.join(120)
    return faults


def check_sandbox(known: Known) -> None:
    """It answers, has the size it says, holds what it must, and each of its checkpoints is ready or failed,
    and as good as told."""
    box = known.box
    assert box.described()["status"] in ("running", "hibernated")
    holds = int(box.output("cat state"))
    assert holds in known.may_hold
    assert int(box.output("awk '/MemTotal/ {print $2}' /proc/meminfo")) == box.described()["memoryMB"] * 1024
    listed = {each["id"]: each["status"] for each in box.checkpoints()}
    assert set(listed.values()) <= {"ready", "failed"}
    ready = [checkpoint for checkpoint, status in listed.items() if status == "ready"]
    for checkpoint in ready[:1]:
        fork = box.from_checkpoint(checkpoint)
        expected = known.checkpoints.get(checkpoint)
        told = int(fork.output("cat state"))
        fork.kill()
        assert told == expected or (expected is None and told in known.may_hold)
    known.holds, known.may_hold = holds, {holds}


def remove_others(client: httpx.Client, known: list[Known], server: ServerProcess) -> None:
    """Sandboxes that nobody was told of in time work, too."""
    mine = {each.box.id for each in known}
    for each in client.get("/sandboxes").json():
        if each["sandboxID"] not in mine:
            other = Box(server, client, each)
            assert other.output("echo works") == "works"
            other.kill()


def check_host(server: ServerProcess, client: httpx.Client) -> None:
    def running() -> set[str]:
        listed = client.get("/sandboxes", params={"status": "running"}).json()
        return {each["sandboxID"] for each in listed if each["status"] == "running"}

    wrong: list[str] = ["nothing was looked at"]

    def agreed() -> bool:
        wrong[:] = disagreements(server, running())
        return not wrong

    try:
        until(agreed, "agreement of the host, the store and the API")
    except AssertionError:
        raise AssertionError("; ".join(wrong)) from None
    assert list((server.data / "artefacts" / "drafts").iterdir()) == []
    images = client.get("/images").json()
    assert {each["status"] for each in images} <= {"ready", "failed"}


@pytest.mark.anyio
async def test_nothing_stays_in_between_and_nothing_is_lost(server: ServerProcess) -> None:
    """Crashes at random moments of everything that saves and starts."""
    chance = random.Random(SEED)
    with server.client() as client:
        known = [Known(create_box(server, client)) for _ in range(OWNERS)]
        for each in known:
            assert each.box.write("state", b"0").status_code == 204
            each.may_hold = {0}
        for number in range(CRASHES):
            faults = await asyncio.to_thread(crash_under_load, server, known, chance)
            await asyncio.to_thread(server.start)
            with telling(server, f"in round {number} of seed {SEED}"):
                assert faults == []
                for each in known:
                    await asyncio.to_thread(check_sandbox, each)
                await asyncio.to_thread(remove_others, client, known, server)
                await asyncio.to_thread(check_host, server, client)
        kept = known[0].box
        kept.output("echo end > last")
        checkpoint = kept.ready_checkpoint("last", retentionPolicy={"mode": "delete_oldest", "maxCount": 2})
        for each in known:
            each.box.kill()
    server.stop()
    assert await left_after_a_moment(server.node_tag, server.data) == []
    await sweep(server)
    server.start()
    with server.client() as client:
        fork = Box(server, client, kept.description).from_checkpoint(checkpoint)
        assert fork.output("cat last") == "end"
        fork.kill()


class Later(RealClock):
    """Long enough after everything for what is not wanted to go."""

    def now(self) -> datetime:
        return super().now() + 2 * GRACE + timedelta(minutes=1)


async def sweep(server: ServerProcess) -> None:
    """Afterwards the store holds what rows want, and nothing else."""
    database = Database.sqlite(server.data / "opencomputer.db")
    await database.open()
    try:
        wanted = await SqlSnapshotStore(database).wanted()
    finally:
        await database.close()
    store = BlobArtefacts(server.data / "artefacts", Later())
    await store.collect(wanted.layers, wanted.memories)
    left = {path.name for name in ("layers", "memories") for path in (store.folder / name).iterdir()}
    assert left <= {*wanted.layers, *wanted.memories}
    blobs = {path.relative_to(store.folder / "blobs") for path in (store.folder / "blobs").rglob("*")}
    names = {part.split(".")[0] for path in blobs for part in path.parts[1:2]}
    assert names <= {*wanted.layers, *wanted.memories}, names
    assert {*wanted.layers, *wanted.memories} <= names
