"""Reboot and power-cycle: files stay, processes do not."""

from __future__ import annotations

import pytest

from tests.api.state import hibernate, read, status, write
from tests.support.node import Api, receive_all

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.usefixtures("nothing_left"),
    pytest.mark.parametrize("call", ["reboot", "power-cycle"]),
]


@pytest.fixture
async def fresh(api: Api) -> str:
    sandbox = (await api.create(envs={"A": "1"}, timeout=600))["sandboxID"]
    await write(api, sandbox, "note", "written just now")
    return sandbox


async def test_files_environment_and_settings_stay(api: Api, fresh: str, call: str) -> None:
    before = (await api.get(f"/sandboxes/{fresh}")).json()
    answer = await api.post(f"/sandboxes/{fresh}/{call}")
    assert (answer.status_code, answer.content) == (204, b"")
    assert await read(api, fresh, "note") == "written just now"
    assert (await api.run(fresh, "echo $A"))["stdout"] == "1\n"
    after = (await api.get(f"/sandboxes/{fresh}")).json()
    assert {key: after[key] for key in before if key != "token"} == {
        key: before[key] for key in before if key != "token"
    }


async def test_sessions_are_gone_and_their_sockets_say_why(api: Api, fresh: str, call: str) -> None:
    session = await api.start(fresh, "exec sleep 600")
    async with api.socket(f"/sandboxes/{fresh}/exec/{session}") as socket:
        assert await socket.recv() == b"\x04"
        await api.post(f"/sandboxes/{fresh}/{call}")
        assert await receive_all(socket) == []
        assert (socket.close_code, socket.close_reason) == (1000, "sandbox rebooted")
    assert (await api.get(f"/sandboxes/{fresh}/exec")).json() == []


async def test_it_can_be_done_again_and_again(api: Api, fresh: str, call: str) -> None:
    for number in range(3):
        await write(api, fresh, f"note{number}", str(number))
        assert (await api.post(f"/sandboxes/{fresh}/{call}")).status_code == 204
    texts = [await read(api, fresh, name) for name in ("note", "note0", "note1", "note2")]
    assert texts == ["written just now", "0", "1", "2"]


async def test_only_what_runs_starts_again(api: Api, fresh: str, call: str) -> None:
    await hibernate(api, fresh)
    assert (await api.post(f"/sandboxes/{fresh}/{call}")).status_code == 400
    assert await status(api, fresh) == "hibernated"
    await api.delete(f"/sandboxes/{fresh}")
    answer = await api.post(f"/sandboxes/{fresh}/{call}")
    assert (answer.status_code, answer.json()["code"]) == (410, "sandbox_stopped")
