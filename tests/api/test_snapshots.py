"""Named snapshots over HTTP. Steps only run what harms nobody: machines are processes of this host."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.test_images import manifest, messages, run, stream
from tests.support.node import Api
from tests.support.waiting import eventually

pytestmark = pytest.mark.anyio


async def create(api: Api, name: str, *steps: dict[str, Any], **query: str) -> dict[str, Any]:
    answer = await api.post("/snapshots", json={"name": name, "image": manifest(*steps)}, params=query)
    assert answer.status_code in (201, 202), answer.text
    return answer.json()


async def test_a_snapshot_is_built_and_started_from(api: Api) -> None:
    image = manifest(run("echo kept > made"))
    events = await stream(api, "/snapshots", {"name": "one", "image": image})
    assert events[-1][0] == "result"
    made = events[-1][1]
    assert made["name"] == "one"
    assert made["status"] == "ready"
    assert made["manifest"] == image
    assert {"id", "orgId", "contentHash", "checkpointId", "createdAt"} <= set(made)
    started = await stream(api, "/sandboxes", {"snapshot": "one"})
    assert messages(started) == ["Starting from snapshot one", "Creating the sandbox"]
    assert (await api.run(started[-1][1]["sandboxID"], "cat made"))["stdout"] == "kept\n"
    assert (await api.get("/snapshots/one")).json()["lastUsedAt"]


async def test_a_blocking_create_answers_when_it_is_ready(api: Api) -> None:
    assert (await create(api, "two", run("true")))["status"] == "ready"


async def test_in_the_background_it_is_building_at_first(api: Api, tmp_path: Any) -> None:
    body = await create(
        api, "three", run(f"until [ -e {tmp_path}/go ]; do sleep 0.05; done"), **{"async": "1"}
    )
    assert body["status"] == "building"
    assert "checkpointId" not in body
    refused = await api.post("/sandboxes", json={"snapshot": "three"})
    assert (refused.status_code, refused.json()["field"]) == (400, "snapshot")
    taken = await api.post("/snapshots", json={"name": "three", "image": manifest()})
    assert taken.status_code == 409
    (tmp_path / "go").touch()

    async def ready() -> bool:
        return (await api.get("/snapshots/three")).json()["status"] == "ready"

    await eventually(ready, "the snapshot")


async def test_a_name_is_taken_once(api: Api) -> None:
    await create(api, "four", run("true"))
    for headers in ({}, {"Accept": "text/event-stream"}):
        body = {"name": "four", "image": manifest()}
        answer = await api.post("/snapshots", json=body, headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (409, "conflict")


async def test_one_that_failed_says_why_and_may_be_replaced(api: Api) -> None:
    body = {"name": "five", "image": manifest(run("echo bad >&2; exit 2"))}
    events = await stream(api, "/snapshots", body)
    assert events[-1] == ("error", {"error": "step 1 (run) failed (exit 2): bad", "code": "build_failed"})
    failed = (await api.get("/snapshots/five")).json()
    assert (failed["status"], failed["error"]) == ("failed", "step 1 (run) failed (exit 2): bad")
    assert (await create(api, "five", run("true")))["status"] == "ready"


async def test_they_are_listed_newest_first_and_deleted_once(api: Api) -> None:
    for name in ("six", "seven"):
        await create(api, name, run("true"))
    names = [each["name"] for each in (await api.get("/snapshots")).json()]
    assert names.index("seven") < names.index("six")
    assert (await api.delete("/snapshots/six")).status_code == 204
    assert (await api.delete("/snapshots/six")).status_code == 404
    assert (await api.get("/snapshots/six")).status_code == 404
    assert "six" not in [each["name"] for each in (await api.get("/snapshots")).json()]


async def test_what_was_made_from_it_outlives_it(api: Api) -> None:
    await create(api, "eight", run("echo still > here"))
    made = (await api.post("/sandboxes", json={"snapshot": "eight"})).json()
    assert (await api.delete("/snapshots/eight")).status_code == 204
    assert (await api.run(made["sandboxID"], "cat here"))["stdout"] == "still\n"


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"image": {}}, "name"),
        ({"name": "x"}, "image"),
        ({"name": 5, "image": {}}, "name"),
        ({"name": "a/b", "image": {}}, "name"),
        ({"name": "", "image": {}}, "name"),
        ({"name": "x", "image": {"steps": 5}}, "image.steps"),
    ],
)
async def test_what_is_wrong_is_named(api: Api, body: dict[str, Any], field: str) -> None:
    answer = await api.post("/snapshots", json=body)
    assert (answer.status_code, answer.json()["field"]) == (400, field)


async def test_only_the_platforms_own_can_be_published(api: Api, other: Api) -> None:
    await create(api, "nine", run("echo for all > gift"))
    await create(other, "own", run("true"))
    assert (await other.post("/sandboxes", json={"snapshot": "nine"})).status_code == 400
    published = await api.post("/snapshots/nine/publish")
    assert (published.status_code, published.json()) == (200, {"name": "nine", "public": True})
    made = (await other.post("/sandboxes", json={"snapshot": "nine"})).json()
    assert (await other.run(made["sandboxID"], "cat gift"))["stdout"] == "for all\n"
    assert (await other.get("/snapshots/nine")).status_code == 404
    assert (await other.delete("/snapshots/nine")).status_code == 404
    assert (await other.post("/snapshots/own/publish")).status_code == 403
    withdrawn = await api.post("/snapshots/nine/unpublish")
    assert withdrawn.json() == {"name": "nine", "public": False}
    assert (await other.post("/sandboxes", json={"snapshot": "nine"})).status_code == 400
