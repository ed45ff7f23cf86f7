"""The log of a sandbox: recorded, filtered, followed, and still there after its end and a restart."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.support.node import FIRST_KEY, Api, NodeFolder, api_of
from tests.support.waiting import eventually

pytestmark = pytest.mark.anyio


async def lines(api: Api, sandbox: str, **params: str) -> list[dict[str, Any]]:
    answer = await api.get(f"/sandboxes/{sandbox}/logs", params={"tail": "false", **params})
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("text/event-stream")
    return [json.loads(line[6:]) for line in answer.text.splitlines() if line.startswith("data: ")]


async def told(api: Api, sandbox: str, **params: str) -> list[str]:
    return [each["line"] for each in await lines(api, sandbox, **params) if "exit_code" not in each]


@asynccontextmanager
async def followed(api: Api, sandbox: str, **headers: str) -> AsyncGenerator[AsyncIterator[str]]:
    path = f"/api/sandboxes/{sandbox}/logs"
    params = {"source": "exec_stdout,exec_stderr,agent"}
    async with api.client.stream("GET", path, params=params, headers=headers) as answer:
        yield answer.aiter_lines()


async def next_line(stream: AsyncIterator[str]) -> str:
    async with asyncio.timeout(60):
        async for line in stream:
            if line.startswith("data: {") and (event := json.loads(line[6:])) and "exit_code" not in event:
                return event["line"]
    raise AssertionError("the stream ended")


async def test_a_command_is_recorded_line_by_line_with_its_end(api: Api) -> None:
    sandbox = (await api.create())["sandboxID"]
    await api.run(sandbox, "echo one; echo two >&2; printf three; exit 4")
    found = await lines(api, sandbox, source="exec_stdout,exec_stderr")
    assert sorted((each["source"], each["line"]) for each in found[:-1]) == [
        ("exec_stderr", "two"),
        ("exec_stdout", "one"),
        ("exec_stdout", "three"),
    ]
    last = found[-1]
    assert (last["line"], last["exit_code"], last["command"], last["argv"][0]) == ("", 4, "sh", "-c")
    assert len({each["exec_id"] for each in found}) == 1
    assert found[0]["_time"].endswith("Z")


async def test_a_session_is_recorded_though_nobody_is_attached(api: Api, sandbox: str) -> None:
    session = await api.start(sandbox, "echo alone in session; exit 3")

    async def ended() -> list[dict[str, Any]]:
        return [each for each in await lines(api, sandbox) if each.get("exit_code") == 3]

    (last,) = await eventually(ended, "the end of the session")
    assert last["exec_id"] == session
    assert await told(api, sandbox, q="alone in") == ["alone in session"]


async def test_a_terminal_is_not_recorded(api: Api, sandbox: str) -> None:
    answer = await api.post(f"/sandboxes/{sandbox}/pty", json={"shell": "/bin/sh"})
    path = f"/sandboxes/{sandbox}/pty/{answer.json()['sessionID']}"
    async with api.socket(path) as socket:
        await socket.send("echo pass''word\n")
        while b"password" not in await asyncio.wait_for(socket.recv(), 60):  # pyright: ignore
            pass
    await api.delete(path)
    assert await told(api, sandbox, q="password") == []


async def test_lines_are_chosen_by_text_source_time_and_number(api: Api) -> None:
    sandbox = (await api.create())["sandboxID"]
    await api.run(sandbox, "echo first a; echo first b; echo hidden >&2")
    first = (await lines(api, sandbox, source="exec_stdout"))[-1]["_time"]
    await asyncio.sleep(0.002)
    await api.run(sandbox, "echo second a")
    second = (await lines(api, sandbox, source="exec_stdout"))[-2]["_time"]
    only = {"source": "exec_stdout"}
    assert await told(api, sandbox, q=" a", **only) == ["first a", "second a"]
    assert await told(api, sandbox, source="exec_stderr") == ["hidden"]
    assert await told(api, sandbox, until=first, **only) == ["first a", "first b"]
    assert await told(api, sandbox, since=second, **only) == ["second a"]
    assert await told(api, sandbox, since="1h", limit="2", **only) == ["second a"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("tail", "perhaps"),
        ("since", "yesterday"),
        ("until", "1h30"),
        ("source", "var_log,kernel"),
        ("limit", "10001"),
        ("limit", "-1"),
        ("q", "x" * 1025),
    ],
)
async def test_a_wrong_parameter_is_refused_by_name(api: Api, sandbox: str, name: str, value: str) -> None:
    answer = await api.get(f"/sandboxes/{sandbox}/logs", params={"tail": "false", name: value})
    assert (answer.status_code, answer.json()["field"]) == (400, name)


async def test_the_stream_goes_on_where_history_ends_and_a_reader_can_come_back(api: Api) -> None:
    sandbox = (await api.create())["sandboxID"]
    await api.run(sandbox, "echo before")
    async with followed(api, sandbox) as stream:
        assert await next_line(stream) == "before"
        await api.run(sandbox, "echo meanwhile")
        assert await next_line(stream) == "meanwhile"
    answer = await api.get(f"/sandboxes/{sandbox}/logs", params={"tail": "false", "q": "meanwhile"})
    (number,) = [line[4:] for line in answer.text.splitlines() if line.startswith("id: ")]
    await api.run(sandbox, "echo after")
    async with followed(api, sandbox, **{"Last-Event-ID": number}) as stream:
        assert await next_line(stream) == "after"


async def test_after_the_end_of_the_sandbox_there_is_history_and_the_stream_says_so(api: Api) -> None:
    sandbox = (await api.create())["sandboxID"]
    await api.run(sandbox, "echo last words")
    async with followed(api, sandbox) as stream:
        assert await next_line(stream) == "last words"
        await api.delete(f"/sandboxes/{sandbox}")
        async with asyncio.timeout(60):
            assert "event: end" in [line async for line in _until_end(stream)]
    assert await told(api, sandbox, source="exec_stdout") == ["last words"]


async def _until_end(stream: AsyncIterator[str]) -> AsyncIterator[str]:
    async for line in stream:
        yield line
        if line == "event: end":
            return


async def test_what_is_appended_below_var_log_is_a_line_too(api: Api, sandbox: str, tmp_path: Any) -> None:
    """The machines of this node share the host's folder: others' files do not count."""
    await eventually(lambda: lines(api, sandbox), "the beginning")
    script = f"f=/var/log/{tmp_path.name}.log; echo noted > $f; printf half >> $f; sleep 0.1; echo $f"
    name = (await api.run(sandbox, script))["stdout"].strip()
    try:

        async def found() -> list[dict[str, Any]]:
            return [each for each in await lines(api, sandbox, source="var_log") if each.get("path") == name]

        assert [each["line"] for each in await eventually(found, "the line")] == ["noted"]
    finally:
        await api.run(sandbox, f"rm {name}")


async def test_nobody_else_reads_a_log(api: Api, other: Api, sandbox: str) -> None:
    assert (await other.get(f"/sandboxes/{sandbox}/logs?tail=false")).status_code == 404
    assert (await api.get("/sandboxes/sb-00000000/logs?tail=false")).status_code == 404


async def test_a_follower_is_cut_off_when_its_key_is_revoked(api: Api, sandbox: str) -> None:
    key = (await api.post("/api-keys", json={"name": "leaked"})).json()
    async with followed(api, sandbox, **{"X-API-Key": key["key"]}) as stream:
        await api.run(sandbox, "echo still")
        assert await next_line(stream)
        assert (await api.delete(f"/api-keys/{key['id']}")).status_code == 204
        async with asyncio.timeout(60):
            assert "event: end" not in [line async for line in stream]


async def test_recording_goes_on_after_a_restart_of_the_node(tmp_path: Any) -> None:
    folder = NodeFolder(tmp_path / "again")
    gate = tmp_path / "gate"
    script = f"echo early; while [ ! -e {gate} ]; do sleep 0.02; done; echo late"
    async with folder.running() as url, api_of(url, FIRST_KEY) as api:
        sandbox = (await api.create())["sandboxID"]
        await api.start(sandbox, script)
        await eventually(lambda: told(api, sandbox, q="early"), "the first line")
    gate.touch()
    async with folder.running() as url, api_of(url, FIRST_KEY) as api:
        await eventually(lambda: told(api, sandbox, q="late"), "the second line")
        assert await told(api, sandbox, source="exec_stdout") == ["early", "late"]
        await api.delete(f"/sandboxes/{sandbox}")
    async with folder.running(LOG_MB="0") as url, api_of(url, FIRST_KEY) as api:
        answer = await api.get(f"/sandboxes/{sandbox}/logs")
        assert (answer.status_code, answer.json()["code"]) == (503, "logs_off")
