"""Forks: sandboxes made from a checkpoint, and from a running sandbox."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.api.state import checkpoint, hibernate, read, spawned, status, write
from tests.support.node import FIRST_KEY, Api, NodeFolder, api_of

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("nothing_left")]


@pytest.fixture
async def source(api: Api) -> str:
    """A sandbox with a file, an environment and metadata."""
    fields = {"envs": {"A": "1", "B": "2"}, "metadata": {"x": "1", "y": "2"}, "timeout": 600}
    sandbox = (await api.create(**fields))["sandboxID"]
    await write(api, sandbox, "note", "early")
    return sandbox


@pytest.mark.parametrize(("kind", "memory_restored"), [("full", True), ("disk_only", False)])
async def test_a_fork_goes_on_from_a_checkpoint(
    api: Api, source: str, kind: str, memory_restored: bool
) -> None:
    made = await checkpoint(api, source, kind=kind)
    await write(api, source, "note", "late")
    fork = await spawned(api, made["id"])
    assert fork["sandboxID"] != source
    assert (fork["status"], fork["fromCheckpointId"]) == ("running", made["id"])
    assert fork["memoryRestored"] is memory_restored
    assert (fork["memoryMB"], fork["templateID"], fork["timeout"]) == (4096, "base", 0)
    assert fork["token"]
    assert fork["connectURL"]
    assert await read(api, fork["sandboxID"], "note") == "early"
    assert await read(api, source, "note") == "late"
    found = (await api.get(f"/sandboxes/{fork['sandboxID']}")).json()
    assert found["fromCheckpointId"] == made["id"]


async def test_environment_and_metadata_are_inherited_and_may_be_overridden(api: Api, source: str) -> None:
    made = await checkpoint(api, source)
    plain = await spawned(api, made["id"])
    assert plain["metadata"] == {"x": "1", "y": "2"}
    changed = await spawned(api, made["id"], envs={"B": "3", "C": "4"}, metadata={"y": "3"}, timeout=30)
    assert changed["metadata"] == {"x": "1", "y": "3"}
    assert changed["timeout"] == 30
    outputs = [(await api.run(each["sandboxID"], "echo $A $B $C"))["stdout"] for each in (plain, changed)]
    assert outputs == ["1 2\n", "1 3 4\n"]


@pytest.mark.parametrize(
    ("asked", "given"),
    [(None, 4096), (1024, 4096), (4096, 4096), (5000, 8192), (16384, 16384), (65536, 16384)],
)
async def test_memory_is_clamped_between_the_sources_and_the_largest_tier(
    api: Api, source: str, asked: int | None, given: int
) -> None:
    made = await checkpoint(api, source, kind="disk_only")
    assert (await spawned(api, made["id"], memoryMB=asked))["memoryMB"] == given


async def test_a_fork_waits_for_a_checkpoint_that_is_processing(api: Api, source: str) -> None:
    made = (await api.post(f"/sandboxes/{source}/checkpoints", json={"name": "before"})).json()
    assert made["status"] == "processing"
    fork = await spawned(api, made["id"])
    assert await read(api, fork["sandboxID"], "note") == "early"


async def test_a_checkpoint_outlives_its_sandbox(api: Api, source: str) -> None:
    made = await checkpoint(api, source)
    await api.delete(f"/sandboxes/{source}")
    fork = await spawned(api, made["id"])
    assert await read(api, fork["sandboxID"], "note") == "early"


async def test_forks_of_one_checkpoint_know_nothing_of_each_other(api: Api, source: str) -> None:
    made = await checkpoint(api, source)
    forks = await asyncio.gather(*(spawned(api, made["id"]) for _ in range(4)))
    ids = [each["sandboxID"] for each in forks]
    assert len({*ids, source}) == 5
    for sandbox in ids:
        await write(api, sandbox, "mine", sandbox)
    assert [await read(api, sandbox, "mine") for sandbox in ids] == ids
    assert await read(api, source, "mine") is None


async def test_a_fork_can_be_forked(api: Api, source: str) -> None:
    sandbox = source
    for generation in range(3):
        made = await checkpoint(api, sandbox, f"generation {generation}")
        sandbox = (await spawned(api, made["id"]))["sandboxID"]
        await write(api, sandbox, f"note{generation}", str(generation))
    texts = [await read(api, sandbox, name) for name in ("note", "note0", "note1", "note2")]
    assert texts == ["early", "0", "1", "2"]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"timeout": -1}, "timeout"),
        ({"timeout": "1"}, "timeout"),
        ({"envs": {"A=B": "x"}}, "envs"),
        ({"metadata": {"a": 1}}, "metadata.a"),
        ({"memoryMB": 0}, "memoryMB"),
        ({"memoryMB": "4096"}, "memoryMB"),
    ],
)
async def test_what_does_not_fit_is_refused(api: Api, sandbox: str, body: dict[str, Any], field: str) -> None:
    for path in ("/sandboxes/from-checkpoint/cp-none", f"/sandboxes/{sandbox}/fork"):
        answer = await api.post(path, json=body)
        assert (answer.status_code, answer.json()["field"]) == (400, field)


# In one call


async def test_a_running_sandbox_is_forked_in_one_call(api: Api, source: str) -> None:
    answer = await api.post(f"/sandboxes/{source}/fork", json={"count": 3, "envs": {"B": "3"}, "timeout": 9})
    assert answer.status_code == 201, answer.text
    forks = answer.json()
    assert len({source, *(each["sandboxID"] for each in forks)}) == 4
    for each in forks:
        assert (each["status"], each["memoryRestored"], each["timeout"]) == ("running", True, 9)
        assert await read(api, each["sandboxID"], "note") == "early"
        assert (await api.run(each["sandboxID"], "echo $A $B"))["stdout"] == "1 3\n"
    await write(api, forks[0]["sandboxID"], "note", "changed")
    assert await read(api, forks[1]["sandboxID"], "note") == "early"
    assert await status(api, source) == "running"


@pytest.mark.parametrize("body", [None, {}, {"count": None}, {"count": 1}])
async def test_one_fork_is_made_unless_more_are_asked_for(
    api: Api, source: str, body: dict[str, Any] | None
) -> None:
    answer = await api.post(f"/sandboxes/{source}/fork", **({} if body is None else {"json": body}))
    assert (answer.status_code, len(answer.json())) == (201, 1)


@pytest.mark.parametrize("count", [0, -1, 17, 1000, "2", 1.5, True])
async def test_so_many_forks_are_not_made_in_one_call(api: Api, sandbox: str, count: Any) -> None:
    answer = await api.post(f"/sandboxes/{sandbox}/fork", json={"count": count})
    assert (answer.status_code, answer.json()["field"]) == (400, "count")


async def test_one_that_sleeps_is_woken_to_be_forked(api: Api, source: str) -> None:
    await hibernate(api, source)
    (fork,) = (await api.post(f"/sandboxes/{source}/fork")).json()
    assert await read(api, fork["sandboxID"], "note") == "early"


async def test_one_that_is_stopped_is_not_forked(api: Api, source: str) -> None:
    await api.delete(f"/sandboxes/{source}")
    answer = await api.post(f"/sandboxes/{source}/fork")
    assert (answer.status_code, answer.json()["code"]) == (410, "sandbox_stopped")


async def test_forks_count_against_the_limit_and_come_all_or_not_at_all(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = NodeFolder(tmp_path_factory.mktemp("limited"))
    async with folder.running(MAX_SANDBOXES_PER_ORG="3") as url, api_of(url, FIRST_KEY) as api:
        sandbox = (await api.create())["sandboxID"]
        refused = await api.post(f"/sandboxes/{sandbox}/fork", json={"count": 3})
        assert (refused.status_code, refused.json()["code"]) == (429, "concurrency_limit")
        running = [each["sandboxID"] for each in (await api.get("/sandboxes")).json()]
        assert running == [sandbox]
        assert (await api.post(f"/sandboxes/{sandbox}/fork", json={"count": 2})).status_code == 201
        for each in (await api.get("/sandboxes")).json():
            await api.delete(f"/sandboxes/{each['sandboxID']}")


@pytest.mark.parametrize("live", [False, True])
async def test_forks_are_made_once_for_an_idempotency_key(api: Api, live: bool) -> None:
    """What comes again is told the same, the token of its previews too; another body is a conflict."""
    source = (await api.create(previewAuth={}))["sandboxID"]
    made = await checkpoint(api, source, kind="disk_only")
    path = f"/sandboxes/{source}/fork" if live else f"/sandboxes/from-checkpoint/{made['id']}"
    headers = {"Idempotency-Key": path}
    first, again = [await api.post(path, json={}, headers=headers) for _ in range(2)]
    assert (first.status_code, again.status_code) == (201, 201)
    one, two = [(each.json()[0] if live else each.json()) for each in (first, again)]
    assert one["previewAuthToken"]
    for name in ("sandboxID", "memoryRestored", "previewAuthToken"):
        assert one[name] == two[name]
    other = await api.post(path, json={"timeout": 7}, headers=headers)
    assert (other.status_code, other.json()["code"]) == (409, "idempotency_mismatch")
