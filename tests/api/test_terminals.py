"""Terminals: bytes both ways, no framing, one reader, sizes."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidStatus

from tests.support.node import Api, receive_all

pytestmark = pytest.mark.anyio


async def opened(api: Api, sandbox: str, **fields: Any) -> str:
    answer = await api.post(f"/sandboxes/{sandbox}/pty", json={"shell": "/bin/sh", **fields})
    assert answer.status_code == 201, answer.text
    assert set(answer.json()) == {"sessionID", "sandboxID"}
    assert answer.json()["sandboxID"] == sandbox
    return answer.json()["sessionID"]


def at(sandbox: str, session: str) -> str:
    return f"/sandboxes/{sandbox}/pty/{session}"


async def read_until(socket: ClientConnection, wanted: bytes) -> bytes:
    seen = b""
    while wanted not in seen:
        message = await asyncio.wait_for(socket.recv(), 60)
        assert isinstance(message, bytes)
        assert message, "an empty message is no output"
        seen += message
    return seen


async def say(socket: ClientConnection, line: str) -> bytes:
    """Type a line and read to its end, which is marked in a way that the echo of it is not."""
    await socket.send(f"{line}; echo end''mark\n".encode())
    return await read_until(socket, b"endmark\r\n")


async def test_what_is_typed_is_run(api: Api, sandbox: str) -> None:
    async with api.socket(at(sandbox, await opened(api, sandbox))) as socket:
        assert b"42\r\n" in await say(socket, "echo $((6*7))")


async def test_input_may_be_text_or_bytes(api: Api, sandbox: str) -> None:
    async with api.socket(at(sandbox, await opened(api, sandbox))) as socket:
        await socket.send("echo te''xt-ü\n")
        await read_until(socket, "text-ü".encode())
        await socket.send(b"echo by''tes\n")
        await read_until(socket, b"bytes\r\n")


async def test_the_size_is_as_asked_and_can_be_changed(api: Api, sandbox: str) -> None:
    session = await opened(api, sandbox, cols=101, rows=33)
    async with api.socket(at(sandbox, session)) as socket:
        assert b"33 101\r\n" in await say(socket, "stty size")
        answer = await api.post(f"{at(sandbox, session)}/resize", json={"cols": 120, "rows": 40})
        assert (answer.status_code, answer.content) == (200, b"")
        assert b"40 120\r\n" in await say(socket, "stty size")


@pytest.mark.parametrize("fields", [{}, {"cols": 0, "rows": 0}])
async def test_the_usual_size_is_eighty_by_twenty_four(
    api: Api, sandbox: str, fields: dict[str, int]
) -> None:
    async with api.socket(at(sandbox, await opened(api, sandbox, **fields))) as socket:
        assert b"24 80\r\n" in await say(socket, "stty size")


async def test_a_resize_while_nobody_is_attached_is_not_lost(api: Api, sandbox: str) -> None:
    session = await opened(api, sandbox)
    async with api.socket(at(sandbox, session)) as socket:
        await say(socket, "true")
    await api.post(f"{at(sandbox, session)}/resize", json={"cols": 99, "rows": 11})
    async with api.socket(at(sandbox, session)) as socket:
        assert b"11 99\r\n" in await say(socket, "stty size")


async def test_the_environment_is_a_terminals_and_the_sandboxes(api: Api) -> None:
    sandbox = (await api.create(envs={"COLOUR": "blue"}))["sandboxID"]
    async with api.socket(at(sandbox, await opened(api, sandbox))) as socket:
        text = await say(socket, "echo $TERM $COLOUR")
        assert b"xterm-256color blue\r\n" in text


async def test_what_was_written_before_the_first_reader_comes_is_kept(api: Api, sandbox: str) -> None:
    session = await opened(api, sandbox, shell="/usr/bin/uname")
    async with api.socket(at(sandbox, session)) as socket:
        assert b"".join(await receive_all(socket)) == b"Linux\r\n"
        assert socket.close_code == 1000


async def test_a_reader_who_comes_back_sees_only_what_he_has_not_seen(api: Api, sandbox: str) -> None:
    session = await opened(api, sandbox)
    async with api.socket(at(sandbox, session)) as socket:
        await say(socket, "echo fi''rst")
    async with api.socket(at(sandbox, session)) as socket:
        assert b"first" not in await say(socket, "echo second")


async def test_a_new_reader_takes_over_from_the_old_one(api: Api, sandbox: str) -> None:
    session = await opened(api, sandbox)
    async with api.socket(at(sandbox, session)) as old:
        await say(old, "true")
        async with api.socket(at(sandbox, session)) as new:
            await say(new, "echo mine")
            await asyncio.wait_for(receive_all(old), 60)
            assert old.close_code == 1000


async def test_two_terminals_are_independent(api: Api, sandbox: str) -> None:
    first, second = await opened(api, sandbox), await opened(api, sandbox)
    async with api.socket(at(sandbox, first)) as one, api.socket(at(sandbox, second)) as two:
        await say(one, "X=1")
        assert b"[]\r\n" in await say(two, "echo [$X]")
        assert b"[1]\r\n" in await say(one, "echo [$X]")


async def test_the_end_of_the_shell_closes_normally(api: Api, sandbox: str) -> None:
    async with api.socket(at(sandbox, await opened(api, sandbox))) as socket:
        await say(socket, "true")
        await socket.send(b"exit 3\n")
        await asyncio.wait_for(receive_all(socket), 60)
        assert socket.close_code == 1000


async def test_leaving_does_not_end_the_shell(api: Api, sandbox: str) -> None:
    session = await opened(api, sandbox)
    async with api.socket(at(sandbox, session)) as socket:
        await say(socket, "KEPT=yes")
    async with api.socket(at(sandbox, session)) as socket:
        assert b"yes\r\n" in await say(socket, "echo $KEPT")


async def test_a_terminal_can_be_ended(api: Api, sandbox: str) -> None:
    session = await opened(api, sandbox)
    async with api.socket(at(sandbox, session)) as socket:
        await say(socket, "true")
        for _ in range(2):
            answer = await api.delete(at(sandbox, session))
            assert (answer.status_code, answer.content) == (204, b"")
        await asyncio.wait_for(receive_all(socket), 60)
        assert socket.close_code == 1000
    resized = await api.post(f"{at(sandbox, session)}/resize", json={"cols": 1, "rows": 1})
    assert resized.status_code == 200


async def test_a_kill_of_the_sandbox_closes_its_terminals(api: Api) -> None:
    sandbox = (await api.create())["sandboxID"]
    async with api.socket(at(sandbox, await opened(api, sandbox))) as socket:
        await say(socket, "true")
        await api.delete(f"/sandboxes/{sandbox}")
        await asyncio.wait_for(receive_all(socket), 60)
        assert (socket.close_code, socket.close_reason) == (1000, "sandbox stopped")


async def test_a_token_in_the_place_of_a_key_is_enough_without_the_prefix(api: Api, sandbox: str) -> None:
    """The published Python client sends it twice, and leaves `/api` out."""
    token = (await api.get(f"/sandboxes/{sandbox}")).json()["token"]
    session = await opened(api, sandbox)
    address = f"{api.url.replace('http', 'ws')}{at(sandbox, session)}?api_key={token}"
    async with connect(
        address, additional_headers={"X-API-Key": token}, proxy=None, open_timeout=60
    ) as socket:
        await say(socket, "true")


async def test_an_exec_session_is_no_terminal_and_the_other_way_round(api: Api, sandbox: str) -> None:
    terminal, session = await opened(api, sandbox), await api.start(sandbox, "sleep 60")
    for path in (f"/sandboxes/{sandbox}/pty/{session}", f"/sandboxes/{sandbox}/exec/{terminal}"):
        with pytest.raises(InvalidStatus) as refused:
            async with api.socket(path):
                pass
        assert refused.value.response.status_code == 404
    assert (await api.delete(at(sandbox, session))).status_code == 404
    assert (await api.post(f"/sandboxes/{sandbox}/exec/{terminal}/kill")).status_code == 404
    listed = (await api.get(f"/sandboxes/{sandbox}/exec")).json()
    assert terminal not in [each["sessionID"] for each in listed]


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"cols": -1}, "cols"),
        ({"cols": 65536}, "cols"),
        ({"cols": "80"}, "cols"),
        ({"rows": 1.5}, "rows"),
        ({"rows": -24}, "rows"),
        ({"shell": ""}, "shell"),
        ({"shell": "\0"}, "shell"),
        ({"shell": 5}, "shell"),
        ({"shell": "/no/such/shell"}, "shell"),
    ],
)
async def test_an_invalid_field_is_refused_by_name(
    api: Api, sandbox: str, fields: dict[str, Any], field: str
) -> None:
    answer = await api.post(f"/sandboxes/{sandbox}/pty", json=fields)
    assert (answer.status_code, answer.json()["field"]) == (400, field)


@pytest.mark.parametrize("fields", [{}, {"cols": 0, "rows": 24}, {"cols": 80}, {"cols": 80, "rows": -1}])
async def test_a_resize_names_a_size(api: Api, sandbox: str, fields: dict[str, Any]) -> None:
    session = await opened(api, sandbox)
    answer = await api.post(f"{at(sandbox, session)}/resize", json=fields)
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_request")


async def test_an_unknown_terminal_is_not_found(api: Api, sandbox: str) -> None:
    answers = [
        await api.post(f"{at(sandbox, '00000000')}/resize", json={"cols": 80, "rows": 24}),
        await api.delete(at(sandbox, "00000000")),
    ]
    assert [answer.status_code for answer in answers] == [404, 404]


async def test_a_reader_who_counts_gets_everything_from_there_on(api: Api, sandbox: str) -> None:
    session = await opened(api, sandbox)
    async with api.socket(at(sandbox, session)) as socket:
        seen = await say(socket, "echo fi''rst")
    async with api.socket(f"{at(sandbox, session)}?offset=0") as socket:
        assert seen in await say(socket, "echo second")
    async with api.socket(f"{at(sandbox, session)}?offset={len(seen)}") as socket:
        rest = await say(socket, "echo third")
        assert b"first" not in rest
        assert b"second" in rest
    with pytest.raises(InvalidStatus) as refused:
        async with api.socket(f"{at(sandbox, session)}?offset=-1"):
            pass
    assert refused.value.response.status_code == 400


async def test_terminals_are_listed(api: Api) -> None:
    sandbox = (await api.create())["sandboxID"]
    await api.start(sandbox, "sleep 60")
    session = await opened(api, sandbox)
    (listed,) = (await api.get(f"/sandboxes/{sandbox}/pty")).json()
    assert (listed["sessionID"], listed["sandboxID"]) == (session, sandbox)
    assert (listed["command"], listed["running"], listed["attachedClients"]) == ("/bin/sh", True, 0)
    await api.delete(f"/sandboxes/{sandbox}")
