"""Images over HTTP. Machines are processes of this host here: steps only run what harms nobody."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncGenerator
from typing import Any

import httpx
import pytest

from tests.support.node import Api
from tests.support.waiting import eventually

pytestmark = pytest.mark.anyio

STREAM = {"Accept": "text/event-stream"}


def run(*commands: str) -> dict[str, Any]:
    return {"type": "run", "args": {"commands": list(commands)}}


def manifest(*steps: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"base": "base", "steps": list(steps), **fields}


Events = list[tuple[str, dict[str, Any]]]


def parsed(answer: httpx.Response) -> Events:
    """The stream as clients read it: split at two line feeds, match words to the letter."""
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.text.endswith("\n\n")
    assert "\r" not in answer.text
    found: Events = []
    for frame in answer.text.split("\n\n")[:-1]:
        if frame.startswith(":"):
            continue
        event, data = frame.split("\n")
        assert event.startswith("event: ")
        assert data.startswith("data: ")
        found.append((event[7:], json.loads(data[6:])))
    assert [event in ("result", "error") for event, _ in found].index(True) == len(found) - 1
    return found


async def stream(api: Api, path: str, body: dict[str, Any]) -> Events:
    return parsed(await api.post(path, json=body, headers=STREAM))


def messages(events: Events) -> list[str]:
    return [data["message"] for event, data in events if event == "build_log"]


async def test_a_sandbox_is_made_from_an_image_and_the_build_is_told(api: Api) -> None:
    image = manifest(run("echo built > made", "echo hello"), run("cat made"))
    events = await stream(api, "/sandboxes", {"image": image})
    assert [(data["step"], data["type"]) for _, data in events[:-1]] == [
        (0, "build"),
        (1, "run"),
        (1, "run"),
        (1, "run"),
        (2, "run"),
        (2, "run"),
        (2, "run"),
        (3, "checkpoint"),
        (0, "create"),
    ]
    assert "hello" in messages(events)
    made = events[-1][1]
    assert (made["status"], made["memoryMB"]) == ("running", 1024)
    assert made["connectURL"]
    assert made["fromCheckpointId"]
    assert (await api.run(made["sandboxID"], "cat made"))["stdout"] == "built\n"
    assert (await api.get(f"/sandboxes/{made['sandboxID']}")).json()["sandboxID"] == made["sandboxID"]


async def test_the_second_time_it_is_there_already_and_still_a_stream(api: Api) -> None:
    image = manifest(run("echo twice"))
    first = await stream(api, "/sandboxes", {"image": image})
    again = await stream(api, "/sandboxes", {"image": image})
    assert [data["type"] for _, data in again[:-1]] == ["cache_hit", "create"]
    assert first[-1][1]["sandboxID"] != again[-1][1]["sandboxID"]


async def test_without_asking_for_a_stream_the_answer_is_plain(api: Api) -> None:
    answer = await api.post("/sandboxes", json={"image": manifest(run("true"))})
    assert (answer.status_code, answer.headers["content-type"]) == (201, "application/json")
    assert answer.json()["status"] == "running"


async def test_a_plain_create_is_no_stream_whatever_is_accepted(api: Api) -> None:
    answer = await api.post("/sandboxes", json={}, headers=STREAM)
    assert (answer.status_code, answer.headers["content-type"]) == (201, "application/json")


async def test_a_failing_step_ends_the_stream_with_its_words(api: Api) -> None:
    image = manifest(run("true"), run("echo so far", "echo no such thing >&2; exit 9", "echo never"))
    for body, path in (({"image": image}, "/sandboxes"), ({"image": image}, "/images")):
        events = await stream(api, path, body)
        assert events[-1] == (
            "error",
            {"error": "step 2 (run) failed (exit 9): no such thing", "code": "build_failed"},
        )
    plain = await api.post("/sandboxes", json={"image": image})
    assert (plain.status_code, plain.json()["step"]) == (400, 2)
    assert image not in [each["manifest"] for each in (await api.get("/images")).json()]


async def test_what_can_be_refused_is_refused_before_a_stream(api: Api) -> None:
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"image": "base"}, "image"),
        ({"image": {"steps": [{"type": "nonsense", "args": {}}]}}, "image.steps.0.type"),
        ({"image": manifest(run())}, "image.steps.0.args.commands"),
        ({"image": {"base": "no-such"}}, "image.base"),
        ({"image": manifest(name="a b")}, "image.name"),
        ({"image": manifest(), "snapshot": "x"}, "image"),
        ({"image": manifest(), "memoryMB": 5}, "memoryMB"),
        ({"image": manifest(), "envs": {"A=B": ""}}, "envs"),
        ({"snapshot": "no-such"}, "snapshot"),
        ({"snapshot": 5}, "snapshot"),
    ]
    for body, field in wrong:
        answer = await api.post("/sandboxes", json=body, headers=STREAM)
        assert (answer.status_code, answer.json().get("field")) == (400, field), answer.text
    async with httpx.AsyncClient(base_url=api.url) as nobody:
        answer = await nobody.post("/api/sandboxes", json={"image": manifest()}, headers=STREAM)
    assert answer.status_code == 401


async def test_the_sandbox_is_as_large_as_it_is_asked_to_be(api: Api) -> None:
    """The image's least memory unless more is asked for; a smaller tier is raised to it."""
    image = manifest(run("echo sizes"), runtimeMemoryMB=4096)
    for asked, got in (
        ({}, 4096),
        ({"memoryMB": 8192}, 8192),
        ({"memoryMB": 1024}, 4096),
        ({"cpuCount": 4}, 16384),
    ):
        answer = await api.post("/sandboxes", json={"image": image, **asked})
        assert answer.json()["memoryMB"] == got, asked


async def test_ten_requests_at_once_share_one_build(api: Api, tmp_path: Any) -> None:
    image = manifest(run(f"echo x >> {tmp_path}/runs; sleep 0.3"))
    answers = await asyncio.gather(*(stream(api, "/images", {"image": image}) for _ in range(10)))
    assert (tmp_path / "runs").read_text() == "x\n"
    assert len({events[-1][1]["id"] for events in answers}) == 1
    logs = [messages(events) for events in answers]
    assert all(log == logs[0] or log == ["The image is built already"] for log in logs)


async def test_built_images_are_listed_as_they_were_sent(api: Api) -> None:
    image = manifest(run("echo listed"), builderMemoryMB=8192)
    made = (await api.post("/images", json={"image": image})).json()
    (listed,) = [each for each in (await api.get("/images")).json() if each["id"] == made["id"]]
    assert listed["manifest"] == image
    assert listed["status"] == "ready"
    assert listed["checkpointId"]
    assert len(listed["contentHash"]) == 64


async def test_images_of_others_are_not_there(api: Api, other: Api) -> None:
    image = manifest(run("echo mine"))
    mine = (await api.post("/images", json={"image": image})).json()
    theirs = (await other.post("/images", json={"image": image})).json()
    assert mine["contentHash"] == theirs["contentHash"]
    assert mine["id"] != theirs["id"]
    assert mine["id"] not in [each["id"] for each in (await other.get("/images")).json()]


async def test_a_client_that_leaves_takes_only_its_sandbox_along(api: Api, tmp_path: Any) -> None:
    """The build goes on, and no sandbox is made that nobody knows of."""
    image = manifest(
        run(f"while [ ! -e {tmp_path}/go ]; do sleep 0.05; done"), run(f"touch {tmp_path}/built")
    )
    before = (await api.get("/sandboxes?status=all")).json()
    with pytest.raises(httpx.ReadTimeout):
        await api.post("/sandboxes", json={"image": image}, headers=STREAM, timeout=3)
    (tmp_path / "go").touch()

    async def built() -> bool:
        return (tmp_path / "built").exists()

    await eventually(built, "the build")
    events = await stream(api, "/images", {"image": image})
    assert events[-1][0] == "result"
    assert (await api.get("/sandboxes?status=all")).json() == before


async def test_a_name_in_the_manifest_registers_it_too(api: Api) -> None:
    image = manifest(run("echo registered"), name="by-the-way")
    for _ in range(2):
        assert (await api.post("/sandboxes", json={"image": image})).status_code == 201
    assert (await api.get("/snapshots/by-the-way")).json()["status"] == "ready"
    other_one = await api.post("/sandboxes", json={"image": manifest(run("echo other"), name="by-the-way")})
    assert other_one.status_code == 409
    assert (await api.delete("/snapshots/by-the-way")).status_code == 204


async def test_thirty_two_megabytes_of_files_fit_and_no_more(api: Api, tmp_path: Any) -> None:
    def image(size: int) -> dict[str, Any]:
        content = base64.b64encode(bytes(size)).decode()
        return manifest({"type": "add_file", "args": {"path": f"{tmp_path}/large", "content": content}})

    answer = await api.post("/images", json={"image": image(32 << 20)}, timeout=60)
    assert answer.status_code == 201, answer.text[:300]
    assert (tmp_path / "large").stat().st_size == 32 << 20
    assert answer.json()["manifest"]["steps"][0]["args"] == {"path": f"{tmp_path}/large"}
    answer = await api.post("/images", json={"image": image((32 << 20) + 1)}, timeout=60)
    assert (answer.status_code, answer.json()["field"]) == (400, "image.steps")


@pytest.fixture(autouse=True)
async def nothing_runs_afterwards(api: Api) -> AsyncGenerator[None]:
    yield
    for each in (await api.get("/sandboxes")).json():
        await api.delete(f"/sandboxes/{each['sandboxID']}")
