"""What tests of state do over and over."""

from __future__ import annotations

from typing import Any

from tests.support.node import Api
from tests.support.waiting import eventually


async def checkpoint(api: Api, sandbox: str, name: str = "before", **fields: Any) -> dict[str, Any]:
    """A checkpoint that is ready, or failed."""
    answer = await api.post(f"/sandboxes/{sandbox}/checkpoints", json={"name": name, **fields})
    assert answer.status_code == 201, answer.text
    return await settled(api, sandbox, answer.json()["id"])


async def settled(api: Api, sandbox: str, checkpoint_id: str) -> dict[str, Any]:
    async def look() -> dict[str, Any] | None:
        found = {each["id"]: each for each in (await api.get(f"/sandboxes/{sandbox}/checkpoints")).json()}
        return None if found[checkpoint_id]["status"] == "processing" else found[checkpoint_id]

    made = await eventually(look, "that the checkpoint is done")
    assert made is not None
    return made


async def spawned(api: Api, checkpoint_id: str, **fields: Any) -> dict[str, Any]:
    """A sandbox made from a checkpoint."""
    answer = await api.post(f"/sandboxes/from-checkpoint/{checkpoint_id}", json=fields)
    assert answer.status_code == 201, answer.text
    return answer.json()


async def write(api: Api, sandbox: str, path: str, text: str) -> None:
    answer = await api.put(f"/sandboxes/{sandbox}/files", params={"path": path}, content=text.encode())
    assert answer.status_code in (200, 201, 204), answer.text


async def read(api: Api, sandbox: str, path: str) -> str | None:
    """A file's text, None when there is no such file."""
    answer = await api.get(f"/sandboxes/{sandbox}/files", params={"path": path})
    if answer.status_code == 404:
        return None
    assert answer.status_code == 200, answer.text
    return answer.text


async def status(api: Api, sandbox: str) -> str:
    return (await api.get(f"/sandboxes/{sandbox}")).json()["status"]


async def hibernate(api: Api, sandbox: str) -> dict[str, Any]:
    answer = await api.post(f"/sandboxes/{sandbox}/hibernate")
    assert answer.status_code == 200, answer.text
    return answer.json()
