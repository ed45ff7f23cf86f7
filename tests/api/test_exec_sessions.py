"""Exec sessions over HTTP; their sockets are tested in test_exec_socket.py."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.support.node import Api, output, receive_all
from tests.support.waiting import eventually

pytestmark = pytest.mark.anyio


async def test_a_session_is_shown_as_the_contract_says(api: Api, sandbox: str) -> None:
    body = {"cmd": "sh", "args": ["-c", "sleep 30"], "maxRunAfterDisconnect": 5}
    answer = await api.post(f"/sandboxes/{sandbox}/exec", json=body)
    assert answer.status_code == 201
    session = answer.json()
    assert re.fullmatch(r"[0-9a-f]{8}", session["sessionID"])
    assert session.pop("startedAt")
    assert session == {
        "sessionID": session["sessionID"],
        "sandboxID": sandbox,
        "command": "sh",
        "args": ["-c", "sleep 30"],
        "running": True,
        "attachedClients": 0,
    }


async def test_sessions_are_listed_while_they_run_and_after(api: Api) -> None:
    sandbox = (await api.create())["sandboxID"]
    assert (await api.get(f"/sandboxes/{sandbox}/exec")).json() == []
    running, ended = await api.start(sandbox, "sleep 60"), await api.start(sandbox, "exit 7")
    await api.run(sandbox, "sleep 0.2")

    async def listed() -> dict[str, Any]:
        found = (await api.get(f"/sandboxes/{sandbox}/exec")).json()
        return {each["sessionID"]: each for each in found}

    async def both() -> dict[str, Any]:
        found = await listed()
        return {} if found[ended]["running"] else found

    found = await eventually(both, "the end of one")
    assert set(found) == {running, ended}, "one-shot commands are not sessions"
    assert (found[ended]["running"], found[ended]["exitCode"]) == (False, 7)
    assert found[running]["running"] is True
    assert "exitCode" not in found[running]


@pytest.mark.parametrize(
    ("body", "code"),
    [(None, 137), ({}, 137), ({"signal": 0}, 137), ({"signal": 15}, 143), ({"signal": 2}, 130)],
)
async def test_a_kill_signals_the_group(
    api: Api, sandbox: str, body: dict[str, Any] | None, code: int
) -> None:
    # Not through a shell: dash may miss an interrupt while it starts a program.
    answer = await api.post(f"/sandboxes/{sandbox}/exec", json={"cmd": "sleep", "args": ["60"]})
    session = answer.json()["sessionID"]
    options: dict[str, Any] = {} if body is None else {"json": body}
    answer = await api.post(f"/sandboxes/{sandbox}/exec/{session}/kill", **options)
    assert (answer.status_code, answer.content) == (204, b"")
    found = await eventually(lambda: ended(api, sandbox, session), "the end")
    assert found["exitCode"] == code
    again = await api.post(f"/sandboxes/{sandbox}/exec/{session}/kill", **options)
    assert again.status_code == 204


async def one(api: Api, sandbox: str, session: str) -> dict[str, Any]:
    found = (await api.get(f"/sandboxes/{sandbox}/exec")).json()
    return next(each for each in found if each["sessionID"] == session)


async def ended(api: Api, sandbox: str, session: str) -> dict[str, Any]:
    """The session once it has ended, nothing before."""
    found = await one(api, sandbox, session)
    return {} if found["running"] else found


@pytest.mark.parametrize("signal", [-1, 65, 1.5, "9", "SIGTERM", True])
async def test_a_signal_is_a_number_the_system_knows(api: Api, sandbox: str, signal: Any) -> None:
    session = await api.start(sandbox, "sleep 60")
    answer = await api.post(f"/sandboxes/{sandbox}/exec/{session}/kill", json={"signal": signal})
    assert (answer.status_code, answer.json()["field"]) == (400, "signal")
    assert (await one(api, sandbox, session))["running"] is True


async def test_a_kill_reaches_children_that_left_the_group(api: Api, sandbox: str) -> None:
    script = "setsid sh -c 'echo $$ > $HOME/escaped; exec sleep 600' & wait"
    session = await api.start(sandbox, script)
    pid = await eventually(lambda: written(api, sandbox, "escaped"), "the child")
    await api.post(f"/sandboxes/{sandbox}/exec/{session}/kill")

    async def gone() -> bool:
        return (await api.run(sandbox, f"kill -0 {pid}"))["exitCode"] != 0

    await eventually(gone, "the end of a child that called setsid")


async def written(api: Api, sandbox: str, file: str) -> str:
    return (await api.run(sandbox, f"cat $HOME/{file}"))["stdout"].strip()


async def test_input_ends_when_a_client_says_so_and_no_sooner(api: Api, sandbox: str) -> None:
    session = await api.start(sandbox, "cat; echo over")
    path = f"/sandboxes/{sandbox}/exec/{session}"
    async with api.socket(path) as leaving:
        await leaving.send(b"\x00first\n")
    async with api.socket(path) as socket:
        await socket.send(b"\x00second\n")
        await socket.send(b"\x05")
        said = output(await receive_all(socket), 1)
    assert said == b"first\nsecond\nover\n"
