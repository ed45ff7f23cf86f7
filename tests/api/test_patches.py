"""Patches: scripts that sandboxes of a checkpoint run once, in order."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.routes import NOTHING
from tests.api.state import checkpoint, hibernate, read, spawned
from tests.support.node import Api
from tests.support.waiting import eventually

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("nothing_left")]


@pytest.fixture
async def saved(api: Api) -> str:
    """A checkpoint of this test's own."""
    sandbox = (await api.create(envs={"A": "1"}))["sandboxID"]
    return (await checkpoint(api, sandbox, kind="disk_only"))["id"]


async def add(api: Api, checkpoint_id: str, script: str, **fields: Any) -> dict[str, Any]:
    answer = await api.post(
        f"/sandboxes/checkpoints/{checkpoint_id}/patches", json={"script": script, **fields}
    )
    assert answer.status_code == 201, answer.text
    return answer.json()["patch"]


async def listed(api: Api, checkpoint_id: str) -> list[dict[str, Any]]:
    answer = await api.get(f"/sandboxes/checkpoints/{checkpoint_id}/patches")
    assert answer.status_code == 200, answer.text
    return answer.json()


async def log(api: Api, sandbox: str) -> list[str]:
    return ((await read(api, sandbox, "log")) or "").split()


async def test_patches_are_numbered_and_numbers_are_not_used_again(api: Api, saved: str) -> None:
    assert await listed(api, saved) == []
    made = [await add(api, saved, f"true {number}") for number in range(3)]
    assert [each["sequence"] for each in made] == [1, 2, 3]
    assert await listed(api, saved) == made
    path = f"/sandboxes/checkpoints/{saved}/patches/{made[2]['id']}"
    assert (await api.delete(path)).status_code == 204
    assert (await api.delete(path)).status_code == 404
    assert (await add(api, saved, "true"))["sequence"] == 4
    assert [each["sequence"] for each in await listed(api, saved)] == [1, 2, 4]


async def test_a_patch_is_shown_as_it_was_sent(api: Api, saved: str) -> None:
    made = await add(api, saved, "echo 'ü'\n", description="says ü")
    assert (made["checkpointId"], made["script"]) == (saved, "echo 'ü'\n")
    assert (made["description"], made["strategy"]) == ("says ü", "on_wake")
    assert made["createdAt"]
    assert "description" not in await add(api, saved, "true")


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "script"),
        ({"script": ""}, "script"),
        ({"script": " \n"}, "script"),
        ({"script": None}, "script"),
        ({"script": ["true"]}, "script"),
        ({"script": "a\0b"}, "script"),
        ({"script": "x" * 200_000}, "script"),
        ({"script": "true", "description": 5}, "description"),
    ],
)
async def test_what_does_not_fit_is_refused(api: Api, saved: str, body: dict[str, Any], field: str) -> None:
    answer = await api.post(f"/sandboxes/checkpoints/{saved}/patches", json=body)
    assert (answer.status_code, answer.json()["field"]) == (400, field)
    assert "Value error" not in answer.json()["error"]
    assert await listed(api, saved) == []


async def test_a_patch_of_another_checkpoint_is_not_there(api: Api, saved: str) -> None:
    made = await add(api, saved, "true")
    sandbox = (await api.create())["sandboxID"]
    other = (await checkpoint(api, sandbox, kind="disk_only"))["id"]
    answer = await api.delete(f"/sandboxes/checkpoints/{other}/patches/{made['id']}")
    assert answer.status_code == 404
    assert await listed(api, saved) == [made]
    assert (await api.delete(f"/sandboxes/checkpoints/{saved}/patches/{NOTHING}")).status_code == 404


async def test_a_new_fork_has_run_them_in_order(api: Api, saved: str) -> None:
    await add(api, saved, "echo one$A >> log")
    await add(api, saved, "echo two >> log")
    fork = await spawned(api, saved)
    assert await log(api, fork["sandboxID"]) == ["one1", "two"]
    assert "patchError" not in fork


async def test_the_first_that_fails_is_the_last_that_runs_and_the_fork_is_usable(
    api: Api, saved: str
) -> None:
    await add(api, saved, "echo one >> log")
    bad = await add(api, saved, "echo two >> log; echo 'no such thing' >&2; exit 3")
    await add(api, saved, "echo three >> log")
    fork = await spawned(api, saved)
    sandbox = fork["sandboxID"]
    assert await log(api, sandbox) == ["one", "two"]
    for shown in (fork, (await api.get(f"/sandboxes/{sandbox}")).json()):
        assert "3" in shown["patchError"]
        assert "no such thing" in shown["patchError"]
    # Deleting the bad one lets the later ones run when it wakes.
    await api.delete(f"/sandboxes/checkpoints/{saved}/patches/{bad['id']}")
    await hibernate(api, sandbox)
    await api.post(f"/sandboxes/{sandbox}/wake")

    async def patched() -> bool:
        shown = (await api.get(f"/sandboxes/{sandbox}")).json()
        return "patchError" not in shown and await log(api, sandbox) == ["one", "two", "three"]

    assert await eventually(patched, "that the patches ran")


async def test_existing_forks_run_new_ones_when_they_wake_and_no_sooner(api: Api, saved: str) -> None:
    await add(api, saved, "echo one >> log")
    sandbox = (await spawned(api, saved))["sandboxID"]
    await add(api, saved, "echo two >> log")
    assert await log(api, sandbox) == ["one"]
    await hibernate(api, sandbox)
    await api.post(f"/sandboxes/{sandbox}/wake")

    async def patched() -> bool:
        return await log(api, sandbox) == ["one", "two"]

    assert await eventually(patched, "that the new patch ran")


async def test_what_ran_already_does_not_run_again_in_forks_of_forks(api: Api, saved: str) -> None:
    await add(api, saved, "echo one >> log")
    first = (await spawned(api, saved))["sandboxID"]
    second = await spawned(api, (await checkpoint(api, first, kind="disk_only"))["id"])
    assert await log(api, second["sandboxID"]) == ["one"]
