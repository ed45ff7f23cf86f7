"""Checkpoints: create, list, delete, restore, publish."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.routes import NOTHING
from tests.api.state import checkpoint, hibernate, read, settled, spawned, status, write
from tests.support.node import Api

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("nothing_left")]


@pytest.fixture
async def fresh(api: Api) -> str:
    """A sandbox of this test's own."""
    return (await api.create(envs={"A": "1"}, metadata={"m": "1"}))["sandboxID"]


async def names(api: Api, sandbox: str) -> list[str]:
    answer = await api.get(f"/sandboxes/{sandbox}/checkpoints")
    assert answer.status_code == 200, answer.text
    return [each["name"] for each in answer.json()]


async def test_a_checkpoint_is_processing_first_and_then_ready_with_its_size(api: Api, fresh: str) -> None:
    answer = await api.post(f"/sandboxes/{fresh}/checkpoints", json={"name": "before"})
    assert answer.status_code == 201
    made = answer.json()
    assert (made["status"], made["sizeBytes"], made["kind"]) == ("processing", 0, "full")
    assert made["sandboxId"] == made["sandboxID"] == fresh
    assert made["isPublic"] is False
    ready = await settled(api, fresh, made["id"])
    assert ready["status"] == "ready"
    assert ready["sizeBytes"] > 0
    assert ready["readyAt"] >= ready["createdAt"] == made["createdAt"]
    config = ready["sandboxConfig"]
    assert (config["templateID"], config["envs"], config["metadata"]) == ("base", {"A": "1"}, {"m": "1"})
    assert (config["cpuCount"], config["memoryMB"], config["diskMB"]) == (1, 4096, 20480)


async def test_lists_are_newest_first_and_stay_when_the_sandbox_is_stopped(api: Api, fresh: str) -> None:
    assert await names(api, fresh) == []
    for name in ("one", "two"):
        await checkpoint(api, fresh, name, kind="disk_only")
    assert await names(api, fresh) == ["two", "one"]
    await api.delete(f"/sandboxes/{fresh}")
    assert await names(api, fresh) == ["two", "one"]


async def test_a_name_is_taken_once_per_sandbox(api: Api, fresh: str) -> None:
    await checkpoint(api, fresh, "same")
    answer = await api.post(f"/sandboxes/{fresh}/checkpoints", json={"name": "same"})
    assert (answer.status_code, answer.json()["code"]) == (409, "conflict")
    other = (await api.create())["sandboxID"]
    assert (await checkpoint(api, other, "same"))["status"] == "ready"


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "name"),
        ({"name": ""}, "name"),
        ({"name": " "}, "name"),
        ({"name": "x" * 129}, "name"),
        ({"name": None}, "name"),
        ({"name": "x", "kind": "half"}, "kind"),
        ({"name": "x", "promoteToFull": True}, "promoteToFull"),
        ({"name": "x", "promoteToFull": 1}, "promoteToFull"),
        ({"name": "x", "retentionPolicy": {"mode": "newest"}}, "retentionPolicy.mode"),
        (
            {"name": "x", "retentionPolicy": {"mode": "delete_oldest", "maxCount": 11}},
            "retentionPolicy.maxCount",
        ),
        (
            {"name": "x", "retentionPolicy": {"mode": "delete_oldest", "maxCount": -1}},
            "retentionPolicy.maxCount",
        ),
    ],
)
async def test_what_does_not_fit_is_refused_and_makes_nothing(
    api: Api, sandbox: str, body: dict[str, Any], field: str
) -> None:
    answer = await api.post(f"/sandboxes/{sandbox}/checkpoints", json=body)
    assert (answer.status_code, answer.json()["field"]) == (400, field)
    assert await names(api, sandbox) == []


@pytest.mark.parametrize("promote", [True, False, None])
async def test_promotion_is_understood_for_disks(api: Api, fresh: str, promote: bool | None) -> None:
    made = await checkpoint(api, fresh, kind="disk_only", promoteToFull=promote)
    assert (made["kind"], made["status"]) == ("disk_only", "ready")


async def test_there_are_ten_full_ones_unless_old_ones_may_go(api: Api, fresh: str) -> None:
    for number in range(10):
        await checkpoint(api, fresh, f"c{number}")
    eleventh = await api.post(f"/sandboxes/{fresh}/checkpoints", json={"name": "c10"})
    assert eleventh.status_code == 400
    assert "10" in eleventh.json()["error"]
    await checkpoint(api, fresh, "disk", kind="disk_only")
    await checkpoint(api, fresh, "c10", retentionPolicy={"mode": "delete_oldest"})
    assert await names(api, fresh) == ["c10", "disk", *(f"c{number}" for number in range(9, 0, -1))]
    await checkpoint(api, fresh, "c11", retentionPolicy={"mode": "delete_oldest", "maxCount": 2})
    assert await names(api, fresh) == ["c11", "c10", "disk"]


async def test_retention_deletes_nothing_when_not_enough_can_go(api: Api, fresh: str) -> None:
    kept = await checkpoint(api, fresh, "kept")
    assert (await api.post(f"/sandboxes/checkpoints/{kept['id']}/publish")).status_code == 200
    policy = {"mode": "delete_oldest", "maxCount": 1}
    body = {"name": "new", "retentionPolicy": policy}
    answer = await api.post(f"/sandboxes/{fresh}/checkpoints", json=body)
    assert (answer.status_code, answer.json()["field"]) == (400, "retentionPolicy")
    assert await names(api, fresh) == ["kept"]


async def test_only_what_runs_can_be_saved(api: Api, fresh: str) -> None:
    await hibernate(api, fresh)
    asleep = await api.post(f"/sandboxes/{fresh}/checkpoints", json={"name": "x"})
    assert asleep.status_code == 400
    assert await status(api, fresh) == "hibernated"
    await api.delete(f"/sandboxes/{fresh}")
    stopped = await api.post(f"/sandboxes/{fresh}/checkpoints", json={"name": "x"})
    assert (stopped.status_code, stopped.json()["code"]) == (410, "sandbox_stopped")
    assert await names(api, fresh) == []


async def test_a_deleted_checkpoint_is_gone_and_what_was_made_from_it_stays(api: Api, fresh: str) -> None:
    await write(api, fresh, "note", "saved")
    made = await checkpoint(api, fresh)
    fork = (await spawned(api, made["id"]))["sandboxID"]
    path = f"/sandboxes/{fresh}/checkpoints/{made['id']}"
    assert (await api.delete(path)).status_code == 204
    assert (await api.delete(path)).status_code == 404
    assert await names(api, fresh) == []
    assert (await api.post(f"/sandboxes/from-checkpoint/{made['id']}")).status_code == 404
    assert await read(api, fork, "note") == "saved"


@pytest.mark.parametrize("name", [NOTHING, "cp-abc123", "x" * 500, "%00", "ü", "..%2f.."])
async def test_an_id_that_names_nothing_is_not_found(api: Api, sandbox: str, name: str) -> None:
    for method, path in [
        ("DELETE", f"/sandboxes/{sandbox}/checkpoints/{name}"),
        ("POST", f"/sandboxes/{sandbox}/checkpoints/{name}/restore"),
        ("POST", f"/sandboxes/from-checkpoint/{name}"),
        ("POST", f"/sandboxes/checkpoints/{name}/publish"),
        ("GET", f"/sandboxes/checkpoints/{name}/patches"),
    ]:
        answer = await api.request(method, path)
        assert (answer.status_code, answer.json()["code"]) == (404, "not_found"), path


# Restore


@pytest.mark.parametrize("kind", ["full", "disk_only"])
async def test_a_sandbox_goes_back_as_often_as_one_likes(api: Api, fresh: str, kind: str) -> None:
    await write(api, fresh, "note", "early")
    made = await checkpoint(api, fresh, kind=kind)
    for _ in range(2):
        await write(api, fresh, "note", "late")
        await write(api, fresh, "newer", "late")
        answer = await api.post(f"/sandboxes/{fresh}/checkpoints/{made['id']}/restore")
        assert answer.status_code == 200
        assert answer.json() == {"sandboxId": fresh, "checkpointId": made["id"], "status": "restoring"}
        found = (await api.get(f"/sandboxes/{fresh}")).json()
        assert found["status"] == "running"
        assert found["token"]
        assert found["connectURL"]
        assert (await read(api, fresh, "note"), await read(api, fresh, "newer")) == ("early", None)
    assert (await api.run(fresh, "echo $A"))["stdout"] == "1\n"


async def test_sessions_of_the_time_after_a_checkpoint_are_gone_after_a_restore(api: Api, fresh: str) -> None:
    made = await checkpoint(api, fresh, kind="disk_only")
    session = await api.start(fresh, "exec sleep 600")
    await api.post(f"/sandboxes/{fresh}/checkpoints/{made['id']}/restore")
    assert (await api.get(f"/sandboxes/{fresh}/exec")).json() == []
    assert (await api.post(f"/sandboxes/{fresh}/exec/{session}/kill")).status_code == 404


async def test_a_restore_waits_for_a_checkpoint_that_is_processing(api: Api, fresh: str) -> None:
    await write(api, fresh, "note", "early")
    made = (await api.post(f"/sandboxes/{fresh}/checkpoints", json={"name": "before"})).json()
    answer = await api.post(f"/sandboxes/{fresh}/checkpoints/{made['id']}/restore")
    assert answer.status_code == 200, answer.text
    assert await read(api, fresh, "note") == "early"


async def test_a_sandbox_goes_back_to_its_own_checkpoints_only(api: Api, fresh: str) -> None:
    other = (await api.create())["sandboxID"]
    made = await checkpoint(api, other)
    answer = await api.post(f"/sandboxes/{fresh}/checkpoints/{made['id']}/restore")
    assert answer.status_code == 400
    assert (await api.delete(f"/sandboxes/{fresh}/checkpoints/{made['id']}")).status_code == 400
    assert await names(api, other) == ["before"]


async def test_only_what_runs_goes_back(api: Api, fresh: str) -> None:
    made = await checkpoint(api, fresh)
    path = f"/sandboxes/{fresh}/checkpoints/{made['id']}/restore"
    await hibernate(api, fresh)
    assert (await api.post(path)).status_code == 400
    assert await status(api, fresh) == "hibernated"
    await api.delete(f"/sandboxes/{fresh}")
    assert (await api.post(path)).status_code == 410


# Publishing


async def test_a_public_checkpoint_may_be_forked_by_all_and_nothing_else(
    api: Api, other: Api, fresh: str
) -> None:
    await write(api, fresh, "note", "for all")
    made = await checkpoint(api, fresh)
    path = f"/sandboxes/from-checkpoint/{made['id']}"
    assert (await other.post(path)).status_code == 404
    for _ in range(2):
        published = await api.post(f"/sandboxes/checkpoints/{made['id']}/publish")
        assert (published.status_code, published.json()["isPublic"]) == (200, True)
    theirs = await spawned(other, made["id"])
    assert await read(other, theirs["sandboxID"], "note") == "for all"
    for method, refused in [
        ("GET", f"/sandboxes/{fresh}/checkpoints"),
        ("DELETE", f"/sandboxes/{fresh}/checkpoints/{made['id']}"),
        ("POST", f"/sandboxes/{theirs['sandboxID']}/checkpoints/{made['id']}/restore"),
        ("DELETE", f"/sandboxes/{theirs['sandboxID']}/checkpoints/{made['id']}"),
        ("GET", f"/sandboxes/checkpoints/{made['id']}/patches"),
        ("POST", f"/sandboxes/checkpoints/{made['id']}/unpublish"),
    ]:
        assert (await other.request(method, refused)).status_code in (403, 404), refused
    hidden = await api.post(f"/sandboxes/checkpoints/{made['id']}/unpublish")
    assert hidden.json()["isPublic"] is False
    assert (await other.post(path)).status_code == 404
    assert await status(other, theirs["sandboxID"]) == "running"


async def test_a_foreign_checkpoint_is_one_that_does_not_exist(api: Api, other: Api, fresh: str) -> None:
    made = await checkpoint(api, fresh)
    patch = await api.post(f"/sandboxes/checkpoints/{made['id']}/patches", json={"script": "true"})
    for method, path in [
        ("POST", "/sandboxes/from-checkpoint/{}"),
        ("POST", "/sandboxes/checkpoints/{}/publish"),
        ("POST", "/sandboxes/checkpoints/{}/unpublish"),
        ("GET", "/sandboxes/checkpoints/{}/patches"),
        ("DELETE", f"/sandboxes/checkpoints/{{}}/patches/{patch.json()['patch']['id']}"),
    ]:
        foreign = await other.request(method, path.format(made["id"]))
        unknown = await other.request(method, path.format(NOTHING))
        assert foreign.status_code == unknown.status_code == 404, path
        assert foreign.json() == unknown.json(), path
    assert (await settled(api, fresh, made["id"]))["isPublic"] is False
