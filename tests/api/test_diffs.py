"""Diff: which files changed since a checkpoint, or since a sandbox was created."""

from __future__ import annotations

import pytest

from tests.api.routes import NOTHING
from tests.api.state import checkpoint, hibernate, spawned, status, write
from tests.support.node import Api

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("nothing_left")]

HOME = "/home/sandbox"


@pytest.fixture
async def fresh(api: Api) -> str:
    return (await api.create())["sandboxID"]


async def changes(api: Api, sandbox: str, since: str = "") -> dict[str, tuple[str, int, bool]]:
    """What changed below the home, by path."""
    answer = await api.get(f"/sandboxes/{sandbox}/diff", params={"from": since} if since else {})
    assert answer.status_code == 200, answer.text
    assert set(answer.json()) == {"changes"}
    found = answer.json()["changes"]
    assert [each["path"] for each in found] == sorted(each["path"] for each in found)
    return {
        each["path"].removeprefix(f"{HOME}/"): (each["kind"], each["size"], each["isDirectory"])
        for each in found
        if each["path"].startswith(f"{HOME}/")
    }


async def test_files_that_came_are_listed_with_their_sizes(api: Api, fresh: str) -> None:
    assert await changes(api, fresh) == {}
    await write(api, fresh, "note", "12345")
    await api.post(f"/sandboxes/{fresh}/files/mkdir", params={"path": "folder"})
    assert await changes(api, fresh) == {"note": ("added", 5, False), "folder": ("added", 0, True)}


async def test_changes_since_a_checkpoint_are_just_those(api: Api, fresh: str) -> None:
    for name in ("stays", "changes", "goes"):
        await write(api, fresh, name, "early")
    made = await checkpoint(api, fresh, kind="disk_only")
    assert await changes(api, fresh, made["id"]) == {}
    await write(api, fresh, "changes", "later!")
    await write(api, fresh, "comes", "x")
    await api.delete(f"/sandboxes/{fresh}/files", params={"path": "goes"})
    assert await changes(api, fresh, made["id"]) == {
        "changes": ("changed", 6, False),
        "comes": ("added", 1, False),
        "goes": ("deleted", 0, False),
    }
    assert set(await changes(api, fresh)) == {"stays", "changes", "comes"}


async def test_a_fork_begins_with_no_changes(api: Api, fresh: str) -> None:
    await write(api, fresh, "note", "early")
    made = await checkpoint(api, fresh)
    fork = (await spawned(api, made["id"]))["sandboxID"]
    assert await changes(api, fork) == {}
    await write(api, fork, "mine", "x")
    assert set(await changes(api, fork)) == {"mine"}
    assert set(await changes(api, fresh)) == {"note"}


async def test_one_that_sleeps_is_compared_without_waking_it(api: Api, fresh: str) -> None:
    await write(api, fresh, "note", "12345")
    await hibernate(api, fresh)
    assert await changes(api, fresh) == {"note": ("added", 5, False)}
    assert await status(api, fresh) == "hibernated"


async def test_a_checkpoint_that_is_not_its_own_is_refused(api: Api, other: Api, fresh: str) -> None:
    mine = (await api.create())["sandboxID"]
    made = await checkpoint(api, mine, kind="disk_only")
    theirs = await checkpoint(other, (await other.create())["sandboxID"], kind="disk_only")
    for since, refusal in ((made["id"], 400), (theirs["id"], 404), (NOTHING, 404), ("x", 404)):
        answer = await api.get(f"/sandboxes/{fresh}/diff", params={"from": since})
        assert answer.status_code == refusal, answer.text


async def test_an_empty_checkpoint_is_none(api: Api, fresh: str) -> None:
    assert (await api.get(f"/sandboxes/{fresh}/diff?from=")).status_code == 200


async def test_what_is_stopped_has_no_changes_to_show(api: Api, fresh: str) -> None:
    await api.delete(f"/sandboxes/{fresh}")
    answer = await api.get(f"/sandboxes/{fresh}/diff")
    assert (answer.status_code, answer.json()["code"]) == (410, "sandbox_stopped")
