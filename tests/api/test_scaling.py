"""Sizes, autoscaling and the scaling lock over HTTP."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.state import hibernate
from tests.support.node import FIRST_KEY, Api, NodeFolder, api_of, kill_all

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("nothing_left")]


@pytest.fixture
async def fresh(api: Api) -> str:
    return (await api.create())["sandboxID"]


async def put(api: Api, sandbox: str, what: str, body: Any) -> tuple[int, Any]:
    answer = await api.put(f"/sandboxes/{sandbox}/{what}", json=body)
    return answer.status_code, answer.json()


async def scale(api: Api, sandbox: str, body: Any) -> tuple[int, Any]:
    answer = await api.post(f"/sandboxes/{sandbox}/scale", json=body)
    return answer.status_code, answer.json()


async def test_scale_and_limits_answer_the_new_size(api: Api, fresh: str) -> None:
    status, scaled = await scale(api, fresh, {"memoryMB": 8192})
    assert status == 200
    assert scaled == {
        "sandboxID": fresh,
        "memoryMB": 8192,
        "cpuPercent": 200,
        "ok": True,
        "migrated": False,
        "autoscaleDisabled": False,
    }
    shown = (await api.get(f"/sandboxes/{fresh}")).json()
    assert (shown["memoryMB"], shown["cpuCount"]) == (8192, 2)
    for body, memory in (({"memoryMB": 1024, "cpuPercent": 100}, 1024), ({"cpuPercent": 400}, 16384)):
        status, limited = await put(api, fresh, "limits", body)
        assert (status, limited["memoryMB"]) == (200, memory)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "memoryMB"),
        ({"memoryMB": None}, "memoryMB"),
        ({"memoryMB": "8192"}, "memoryMB"),
        ({"memoryMB": 8192.5}, "memoryMB"),
        ({"memoryMB": True}, "memoryMB"),
        ({"memoryMB": -1}, "memoryMB"),
        ({"memoryMB": 2048}, "memoryMB"),
        ({"memoryMB": 32768}, "memoryMB"),
        ({"memoryMB": 10**30}, "memoryMB"),
        ({"memoryMB": 8192, "cpuPercent": 100}, "cpuPercent"),
        ({"cpuPercent": 150}, "cpuPercent"),
    ],
)
async def test_a_size_that_cannot_be_names_its_field(
    api: Api, sandbox: str, body: dict[str, Any], field: str
) -> None:
    for status, answer in (await scale(api, sandbox, body), await put(api, sandbox, "limits", body)):
        assert (status, answer["field"]) == (400, field)


async def test_autoscaling_is_set_shown_and_ended(api: Api, fresh: str) -> None:
    before = (await api.get(f"/sandboxes/{fresh}/autoscale")).json()
    assert before == {"sandboxID": fresh, "enabled": False, "minMemoryMB": 4096, "maxMemoryMB": 16384}
    body = {"enabled": True, "minMemoryMB": 1024, "maxMemoryMB": 8192}
    assert await put(api, fresh, "autoscale", body) == (200, {"sandboxID": fresh, **body})
    assert (await api.get(f"/sandboxes/{fresh}/autoscale")).json() == {"sandboxID": fresh, **body}
    assert (await scale(api, fresh, {"memoryMB": 2048}))[0] == 400
    assert (await api.get(f"/sandboxes/{fresh}/autoscale")).json()["enabled"]
    assert (await scale(api, fresh, {"memoryMB": 4096}))[1]["autoscaleDisabled"]
    assert not (await api.get(f"/sandboxes/{fresh}/autoscale")).json()["enabled"]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "enabled"),
        ({"enabled": "yes"}, "enabled"),
        ({"enabled": True, "minMemoryMB": 2000}, "minMemoryMB"),
        ({"enabled": True, "maxMemoryMB": 65536}, "maxMemoryMB"),
        ({"enabled": True, "minMemoryMB": 8192, "maxMemoryMB": 4096}, "minMemoryMB"),
    ],
)
async def test_bounds_that_cannot_be_name_their_field(
    api: Api, sandbox: str, body: dict[str, Any], field: str
) -> None:
    status, answer = await put(api, sandbox, "autoscale", body)
    assert (status, answer["field"]) == (400, field)


async def test_a_lock_forbids_changes_and_stays_with_its_sandbox(api: Api, fresh: str) -> None:
    assert (await api.get(f"/sandboxes/{fresh}/scaling-lock")).json() == {"sandboxID": fresh, "locked": False}
    assert await put(api, fresh, "scaling-lock", {"locked": True}) == (
        200,
        {"sandboxID": fresh, "locked": True},
    )
    for status, answer in (
        await scale(api, fresh, {"memoryMB": 1}),
        await put(api, fresh, "limits", {"memoryMB": 8192, "cpuPercent": 200}),
        await put(api, fresh, "autoscale", {"enabled": True}),
    ):
        assert (status, answer["code"]) == (403, "scaling_locked")
    (fork,) = (await api.post(f"/sandboxes/{fresh}/fork", json={})).json()
    assert not (await api.get(f"/sandboxes/{fork['sandboxID']}/scaling-lock")).json()["locked"]
    assert (await put(api, fresh, "scaling-lock", {}))[0] == 400
    await put(api, fresh, "scaling-lock", {"locked": False})
    assert (await scale(api, fresh, {"memoryMB": 8192}))[0] == 200


async def test_only_what_runs_is_scaled(api: Api, fresh: str) -> None:
    await hibernate(api, fresh)
    assert (await scale(api, fresh, {"memoryMB": 8192}))[0] == 400
    assert (await put(api, fresh, "scaling-lock", {"locked": True}))[0] == 200
    assert (await api.get(f"/sandboxes/{fresh}")).json()["status"] == "hibernated"
    await api.delete(f"/sandboxes/{fresh}")
    assert (await scale(api, fresh, {"memoryMB": 8192}))[0] == 410


async def test_a_server_may_allow_less(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = NodeFolder(tmp_path_factory.mktemp("capped"))
    async with folder.running(POOL_MAX="0", MAX_MEMORY_MB="4096") as url, api_of(url, FIRST_KEY) as api:
        refused = await api.post("/sandboxes", json={"memoryMB": 8192})
        assert (refused.status_code, refused.json()["code"]) == (402, "plan_limit")
        sandbox = (await api.create())["sandboxID"]
        for status, answer in (
            await scale(api, sandbox, {"memoryMB": 8192}),
            await scale(api, sandbox, {"memoryMB": 5000}),
            await put(api, sandbox, "autoscale", {"enabled": True, "maxMemoryMB": 8192}),
        ):
            assert (status, answer["code"]) == (402, "plan_limit")
        assert (await scale(api, sandbox, {"memoryMB": 1024}))[0] == 200
        shown = (await put(api, sandbox, "autoscale", {"enabled": True}))[1]
        assert (shown["minMemoryMB"], shown["maxMemoryMB"]) == (1024, 4096)
        await kill_all(api)
