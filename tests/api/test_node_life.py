"""A node starts, stops and comes back: what it tells, what it keeps, what it lets go of."""

from __future__ import annotations

import asyncio
import json
import stat
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from opencomputer.server.identity import DataFolder, DataFolderBusy, NodeIdentity, write_private
from opencomputer.server.listeners import AddressInUse
from opencomputer.server.machines.launcher import Launcher
from tests.support.node import FIRST_KEY, Api, NodeFolder, api_of, kill_all, output, receive_all
from tests.support.waiting import eventually

pytestmark = pytest.mark.anyio


@pytest.fixture
def fresh(tmp_path_factory: pytest.TempPathFactory) -> NodeFolder:
    return NodeFolder(tmp_path_factory.mktemp("node"))


async def test_the_first_start_makes_an_organisation_and_tells_the_way(fresh: NodeFolder) -> None:
    async with fresh.running(BOOTSTRAP_API_KEY="") as url:
        local = fresh.path / "local-node.json"
        told = json.loads(local.read_text())
        assert told["apiUrl"] == url
        for file in (local, fresh.data / "local-key.json", fresh.data / "node.json"):
            assert stat.S_IMODE(file.stat().st_mode) == 0o600, file
        async with api_of(url, told["apiKey"]) as api:
            assert (await api.get("/whoami")).json()["org_name"] == "default"
    async with fresh.running(BOOTSTRAP_API_KEY="") as url:
        again = json.loads(local.read_text())
        assert again == {"apiUrl": url, "apiKey": told["apiKey"]}
        async with api_of(url, told["apiKey"]) as api:
            assert len((await api.get("/api-keys")).json()) == 1


async def test_a_data_folder_of_an_earlier_version_gets_the_secrets_that_it_lacks(fresh: NodeFolder) -> None:
    file = fresh.data / "node.json"
    fresh.data.mkdir(parents=True)
    write_private(file, {"tag": "abcdef", "tokenSecret": "11" * 32})
    identities: list[NodeIdentity] = []
    for _ in range(2):
        folder = DataFolder(fresh.data)
        identities.append(folder.open())
        folder.close()
    first, second = identities
    assert first == second
    assert (first.tag, first.token_secret) == ("abcdef", b"\x11" * 32)
    assert len(first.file_url_secret) == 32
    assert first.file_url_secret != first.token_secret
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert first.file_url_secret.hex() not in repr(first)


async def test_the_first_key_may_be_given_and_counts_once_only(fresh: NodeFolder) -> None:
    async with fresh.running(BOOTSTRAP_API_KEY=FIRST_KEY) as url, api_of(url, FIRST_KEY) as api:
        assert (await api.get("/whoami")).status_code == 200
    other = "osb_" + "b2" * 32
    async with fresh.running(BOOTSTRAP_API_KEY=other) as url, api_of(url, other) as api:
        assert (await api.get("/whoami")).status_code == 401


async def test_an_organisation_may_be_added_beside_a_running_node(fresh: NodeFolder) -> None:
    async with fresh.running() as url, api_of(url, await fresh.second_organisation()) as api:
        assert (await api.get("/whoami")).json()["org_name"] == "another"


async def test_two_nodes_never_share_a_data_folder(fresh: NodeFolder) -> None:
    async with fresh.running():
        with pytest.raises(DataFolderBusy, match="another server"):
            await fresh.running().__aenter__()


async def test_an_address_in_use_is_said_and_nothing_is_left_behind(fresh: NodeFolder) -> None:
    async with fresh.running() as url:
        second = NodeFolder(fresh.path / "second")
        for _ in range(2):
            with pytest.raises(AddressInUse, match="cannot listen"):
                await second.running(LISTEN=url.removeprefix("http://")).__aenter__()


async def test_a_stop_closes_sockets_so_that_clients_come_back(fresh: NodeFolder) -> None:
    async with fresh.running() as url, api_of(url, FIRST_KEY) as api:
        sandbox = (await api.create())["sandboxID"]
        session = await api.start(sandbox, "echo hi; sleep 600")
        terminal = (await api.post(f"/sandboxes/{sandbox}/pty", json={"shell": "/bin/sh"})).json()[
            "sessionID"
        ]
        sockets = [
            await api.socket(f"/sandboxes/{sandbox}/{kind}/{id_}")
            for kind, id_ in (("exec", session), ("exec", session), ("pty", terminal))
        ]
        readers = [asyncio.create_task(receive_all(socket)) for socket in sockets]
        await api.run(sandbox, "true")
    await asyncio.wait_for(asyncio.gather(*readers), 60)
    assert [socket.close_code for socket in sockets] == [1012, 1012, 1012]
    await clean(fresh)


async def test_a_stop_is_soon_done_whatever_is_under_way(fresh: NodeFolder) -> None:
    async with fresh.running() as url, api_of(url, FIRST_KEY) as api:
        sandbox = (await api.create())["sandboxID"]
        run = asyncio.create_task(api.run(sandbox, "sleep 600"))
        upload = asyncio.create_task(api.put(f"/sandboxes/{sandbox}/files?path=x", content=slowly()))
        await api.run(sandbox, "true")
        began = asyncio.get_running_loop().time()
    assert asyncio.get_running_loop().time() - began < 60
    for task in (run, upload):
        task.cancel()
    await asyncio.gather(run, upload, return_exceptions=True)
    await clean(fresh)


async def slowly() -> AsyncGenerator[bytes]:
    while True:
        yield b"x"
        await asyncio.sleep(0.1)


async def clean(folder: NodeFolder) -> None:
    """End what a stopped node has left running, as it should."""
    async with folder.running() as url, api_of(url, FIRST_KEY) as api:
        await kill_all(api)


async def test_sandboxes_and_their_sessions_survive_a_restart(fresh: NodeFolder) -> None:
    script = "i=0; while [ $i -lt 3000 ]; do echo $i; i=$((i+1)); [ $((i % 50)) = 0 ] && sleep 0.01; done"
    async with fresh.running() as url, api_of(url, FIRST_KEY) as api:
        made = [(await api.create(envs={"N": str(number)}))["sandboxID"] for number in range(3)]
        sessions = [await api.start(sandbox, script) for sandbox in made]
        handle = await start_slow(api, made[0])
        token = (await api.get(f"/sandboxes/{made[0]}")).json()["token"]
        async with api.socket(f"/sandboxes/{made[0]}/exec/{sessions[0]}") as socket:
            assert await socket.recv()
    async with fresh.running() as url, api_of(url, FIRST_KEY) as api:
        listed = [each["sandboxID"] for each in (await api.get("/sandboxes")).json()]
        assert sorted(listed) == sorted(made)
        for number, (sandbox, session) in enumerate(zip(made, sessions, strict=True)):
            async with api.socket(f"/sandboxes/{sandbox}/exec/{session}") as socket:
                text = output(await asyncio.wait_for(receive_all(socket), 60), 1)
            assert text == b"".join(b"%d\n" % line for line in range(3000))
            assert (await api.run(sandbox, "echo $N"))["stdout"] == f"{number}\n"
        answer = await api.client.get(f"/api/sandboxes/{made[0]}/exec", params={"token": token})
        assert answer.status_code == 200

        async def finished() -> bool:
            result = (await api.get(f"/sandboxes/{made[0]}/exec/{handle}/result")).json()
            return not result["running"] and result["stdout"] == "begun\nended\n"

        await eventually(finished, "the result of a command of before the restart")
        await kill_all(api)


async def start_slow(api: Api, sandbox: str) -> str:
    body = {"cmd": "sh", "args": ["-c", "echo begun; sleep 3; echo ended"]}
    return (await api.post(f"/sandboxes/{sandbox}/exec/run-async", json=body)).json()["execId"]


async def test_a_sandbox_that_dies_while_no_node_runs_is_recorded_as_lost(fresh: NodeFolder) -> None:
    async with fresh.running() as url, api_of(url, FIRST_KEY) as api:
        sandbox = (await api.create())["sandboxID"]
        ended = asyncio.create_task(api.run(sandbox, "kill -9 $PPID"))
        await asyncio.gather(ended, return_exceptions=True)

        async def crashed() -> bool:
            return (await api.get(f"/sandboxes/{sandbox}")).json()["status"] == "stopped"

        await eventually(crashed, "the notice of the crash")
        found = (await api.get(f"/sandboxes/{sandbox}")).json()
        assert found["stopReason"] == "crash"
        answer = await api.post(f"/sandboxes/{sandbox}/exec/run", json={"cmd": "true"})
        assert (answer.status_code, answer.json()["code"]) == (410, "sandbox_stopped")


def adopting_waits(monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """Let no machine be adopted until the event is set."""
    adopt, go_on = Launcher.adopt, asyncio.Event()

    async def slowly_adopt(*arguments: Any, **options: Any) -> Any:
        await go_on.wait()
        return await adopt(*arguments, **options)

    monkeypatch.setattr(Launcher, "adopt", slowly_adopt)
    return go_on


async def test_while_machines_are_adopted_the_node_answers_and_says_when_to_come_back(
    fresh: NodeFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was running is not there yet, what is new works at once."""
    async with fresh.running() as url, api_of(url, FIRST_KEY) as api:
        sandbox = (await api.create())["sandboxID"]
    go_on = adopting_waits(monkeypatch)
    local = fresh.path / "local-node.json"
    local.unlink()
    ready, done = asyncio.Event(), asyncio.Event()

    async def serve() -> None:
        async with fresh.running():
            ready.set()
            await done.wait()

    async def told() -> str:
        return json.loads(local.read_text())["apiUrl"] if local.exists() else ""

    serving = asyncio.create_task(serve())
    async with api_of(await eventually(told, "the node's address"), FIRST_KEY) as api:
        assert (await api.client.get("/healthz")).status_code == 200
        for answer in (await api.client.get("/readyz"), await api.get(f"/sandboxes/{sandbox}/exec")):
            assert answer.status_code == 503
            assert int(answer.headers["retry-after"]) >= 1
        assert (await api.get(f"/sandboxes/{sandbox}")).json()["status"] == "running"
        new = (await api.create())["sandboxID"]
        assert not ready.is_set()
        go_on.set()
        await asyncio.wait_for(ready.wait(), 60)
        for each, word in ((sandbox, "old"), (new, "new")):
            assert (await api.run(each, f"echo {word}"))["stdout"] == f"{word}\n"
        await kill_all(api)
    done.set()
    await serving


async def test_not_a_credential_is_in_the_log(fresh: NodeFolder, capfd: pytest.CaptureFixture[str]) -> None:
    secret = "5ec2e7" * 6
    async with fresh.running() as url, api_of(url, FIRST_KEY) as api:
        sandbox = await api.create(envs={"SECRET": secret})
        session = await api.start(sandbox["sandboxID"], "cat", envs={"OTHER": secret})
        for credential in (FIRST_KEY, sandbox["token"], f"wrong-{secret}"):
            for name in ("api_key", "token"):
                await api.client.get("/api/whoami", params={name: credential}, headers={"X-API-Key": ""})
                await api.client.get("/api/whoami", headers={"Authorization": f"Bearer {credential}"})
        async with api.socket(f"/sandboxes/{sandbox['sandboxID']}/exec/{session}") as socket:
            await socket.send(f"\0{secret}\n".encode())
            await socket.recv()
        await api.post("/sandboxes", content=f'{{"alias": 5, "metadata": "{secret}"}}')
        await api.put(f"/sandboxes/{sandbox['sandboxID']}/files?path=x", content=secret.encode())
        created = (await api.post("/api-keys", json={"name": "n"})).json()["key"]
        await kill_all(api)
    captured = capfd.readouterr()
    log = captured.out + captured.err
    assert "request" in log, "else this test would see nothing"
    for hidden in (FIRST_KEY, sandbox["token"], created, secret):
        assert hidden not in log
