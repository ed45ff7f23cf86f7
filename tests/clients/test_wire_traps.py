"""What clients silently depend on and no published SDK notices by itself (the contract's trap list)."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager

import httpx
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidStatus

from tests.support.server import ServerProcess

pytestmark = [pytest.mark.machines, pytest.mark.anyio]

SCROLLBACK_END = b"\x04"
MOST_FRAME_BYTES = 65536 + 1


@pytest.fixture(scope="module")
def client(server: ServerProcess) -> Generator[httpx.Client]:
    with server.client() as client:
        yield client


@pytest.fixture(scope="module")
def sandbox(client: httpx.Client) -> dict[str, str]:
    return client.post("/sandboxes", json={}).json()


@pytest.fixture
def path(sandbox: dict[str, str]) -> str:
    return f"/sandboxes/{sandbox['sandboxID']}"


def session_running(client: httpx.Client, path: str, script: str) -> str:
    answer = client.post(f"{path}/exec", json={"cmd": "sh", "args": ["-c", script]})
    assert answer.status_code == 201
    return answer.json()["sessionID"]


@asynccontextmanager
async def attached(
    server: ServerProcess, path: str, session_id: str, *, prefix: str = "/api", query: str = ""
) -> AsyncGenerator[ClientConnection]:
    origin = server.url.replace("http", "ws", 1)
    credential = query or f"api_key={server.api_key}"
    async with connect(f"{origin}{prefix}{path}/exec/{session_id}?{credential}", max_size=None) as socket:
        yield socket


async def frames_of(socket: ClientConnection) -> list[bytes]:
    return [message if isinstance(message, bytes) else message.encode() async for message in socket]


# Addresses and credentials


def test_a_sandbox_always_names_where_to_connect_and_with_what(
    client: httpx.Client, sandbox: dict[str, str], server: ServerProcess
) -> None:
    """Python agents cannot do without the URL, and put the token into a query unescaped."""
    for description in (sandbox, client.get(f"/sandboxes/{sandbox['sandboxID']}").json()):
        assert description["connectURL"] == f"{server.url}/api"
        assert description["token"] == httpx.QueryParams({"t": description["token"]}).get("t")
        assert not set(description["token"]) & set("+/=&?#% ")
        assert description.get("endAt") is None


@pytest.mark.parametrize("prefix", ["/api", ""])
def test_the_data_plane_is_served_with_and_without_its_prefix(
    server: ServerProcess, path: str, prefix: str
) -> None:
    """Some clients use `connectURL` as it is, others strip or add `/api`."""
    root = f"{server.url}{prefix}{path}"
    headers = {"X-API-Key": server.api_key}
    for method, place, body in (
        ("POST", "/exec/run", {"cmd": "true"}),
        ("POST", "/exec/run-async", {"cmd": "true"}),
        ("GET", "/exec", None),
        ("GET", "/agent", None),
        ("POST", "/pty", {}),
        ("GET", "/files?path=/etc/hostname", None),
        ("GET", "/files/list?path=/", None),
        ("POST", "/timeout", {"timeout": 0}),
    ):
        answer = httpx.request(method, root + place, json=body, headers=headers)
        assert answer.is_success, f"{place}: {answer.status_code} {answer.text}"


@pytest.mark.parametrize("place", ["X-API-Key", "Authorization", "api_key", "token"])
def test_a_sandbox_token_is_taken_wherever_a_key_is(
    server: ServerProcess, sandbox: dict[str, str], path: str, place: str
) -> None:
    """The Python terminal sends it as if it were a key."""
    token = sandbox["token"]
    headers = {"X-API-Key": token} if place == "X-API-Key" else {}
    headers |= {"Authorization": f"Bearer {token}"} if place == "Authorization" else {}
    query = {place: token} if place in ("api_key", "token") else {}
    answer = httpx.get(f"{server.url}/api{path}/exec", headers=headers, params=query)
    assert answer.status_code == 200


def test_a_sandbox_token_opens_no_other_sandbox(server: ServerProcess, sandbox: dict[str, str]) -> None:
    """A valid credential without the right is 403, not 401."""
    answer = httpx.get(
        f"{server.url}/api/sandboxes/sb-00000000/exec", headers={"X-API-Key": sandbox["token"]}
    )
    assert answer.status_code == 403


def test_a_wrong_header_is_not_passed_over_for_a_right_query(server: ServerProcess, path: str) -> None:
    """Who says who they are and is not, is nobody."""
    answer = httpx.get(
        f"{server.url}/api{path}/exec", headers={"X-API-Key": "wrong"}, params={"api_key": server.api_key}
    )
    assert answer.status_code == 401


async def test_sockets_refuse_before_the_upgrade(
    server: ServerProcess, client: httpx.Client, path: str
) -> None:
    """Wrong credential and unknown session answer as plain HTTP does."""
    session_id = session_running(client, path, "true")
    for identity, query, status in ((session_id, "api_key=wrong", 401), ("ffffffff", "", 404)):
        with pytest.raises(InvalidStatus) as refused:
            async with attached(server, path, identity, query=query):
                pass
        assert refused.value.response.status_code == status


# Requests


@pytest.mark.parametrize("place", ["/sandboxes/", "/templates/", "//sandboxes"])
def test_nothing_is_ever_redirected(client: httpx.Client, place: str) -> None:
    """The Python client does not follow redirects."""
    assert client.get(place).status_code in (404, 405)


def test_faults_are_400_with_one_text(client: httpx.Client, path: str) -> None:
    """Clients show `error` to people; they do not know a framework's list of faults."""
    for body in (b"{", b"[]", b'{"cmd": 5}', b'{"cmd": ""}', b"{}", b'{"cmd": "true", "timeout": "soon"}'):
        answer = client.post(f"{path}/exec/run", content=body)
        assert answer.status_code == 400
        assert isinstance(answer.json()["error"], str)


def test_an_empty_body_is_an_empty_object_whatever_its_type(client: httpx.Client) -> None:
    """TypeScript sends the JSON type with no body; others send no type at all."""
    for headers in ({"Content-Type": "application/json"}, {"Content-Type": "text/plain"}, {}):
        answer = client.post("/sandboxes", content=b"", headers=headers)
        assert answer.status_code == 201
        client.delete(f"/sandboxes/{answer.json()['sandboxID']}")


def test_unknown_fields_and_headers_are_ignored(client: httpx.Client, path: str) -> None:
    """A newer client goes on working."""
    headers = {"x-oc-sdk-version": "99.0.0", "X-OSB-Async-Wake": "1"}
    answer = client.post(f"{path}/exec/run", json={"cmd": "true", "novel": {"a": 1}}, headers=headers)
    assert answer.json() == {"exitCode": 0, "stdout": "", "stderr": ""}


def test_arguments_may_be_as_long_as_the_kernel_takes(client: httpx.Client, path: str) -> None:
    """A megabyte of arguments is under every usual limit."""
    body = {"cmd": "printf", "args": ["%s", *["x" * 65536] * 16]}
    assert client.post(f"{path}/exec/run", json=body).json()["stdout"] == "x" * (1 << 20)


def test_chunked_bodies_are_read(client: httpx.Client, path: str) -> None:
    """Some clients do not say how long a body is."""
    answer = client.post(f"{path}/exec/run", content=iter([b'{"cmd"', b':"echo ', b'hi"}']))
    assert answer.json()["stdout"] == "hi\n"


# Frames


async def test_an_ended_session_is_replayed_marked_ended_and_closed(
    server: ServerProcess, client: httpx.Client, path: str
) -> None:
    """Exactly these frames: a shorter exit frame reads as 0, a missing mark makes a shell wait for ever."""
    session_id = session_running(client, path, "printf hi; exit 7")
    async with attached(server, path, session_id) as socket:
        await frames_of(socket)
    async with attached(server, path, session_id, prefix="") as socket:
        assert await frames_of(socket) == [b"\x01hi", SCROLLBACK_END, b"\x03\x00\x00\x00\x07"]
        assert socket.close_code == 1000


async def test_the_mark_comes_when_there_was_nothing_to_replay(
    server: ServerProcess, client: httpx.Client, path: str
) -> None:
    session_id = session_running(client, path, "read line")
    async with attached(server, path, session_id) as socket:
        assert await socket.recv() == SCROLLBACK_END
        await socket.send(b"\x00\n")
        assert await frames_of(socket) == [b"\x03\x00\x00\x00\x00"]


async def test_frames_stay_far_below_what_clients_take(
    server: ServerProcess, client: httpx.Client, path: str
) -> None:
    """The Python library drops the connection at one megabyte; all output comes before the exit."""
    session_id = session_running(client, path, "read line; head -c 5000000 /dev/zero; printf end >&2")
    async with attached(server, path, session_id) as socket:
        await socket.send(b"\x00\n")
        frames = await frames_of(socket)
    assert max(map(len, frames)) <= MOST_FRAME_BYTES
    assert sum(len(frame) - 1 for frame in frames if frame[0] == 1) == 5_000_000
    assert b"".join(frame[1:] for frame in frames if frame[0] == 2) == b"end"
    assert frames[-1] == b"\x03\x00\x00\x00\x00"


async def test_messages_that_mean_nothing_are_ignored(
    server: ServerProcess, client: httpx.Client, path: str
) -> None:
    """Text, empty messages and unknown streams change nothing."""
    session_id = session_running(client, path, "cat")
    async with attached(server, path, session_id) as socket:
        assert await socket.recv() == SCROLLBACK_END
        for message in ("text", b"", b"\x00", b"\x01out", b"\x09else", b"\xff"):
            await socket.send(message)
        await socket.send(b"\x00real")
        assert await socket.recv() == b"\x01real"


async def test_pings_are_answered_while_a_program_is_silent(
    server: ServerProcess, client: httpx.Client, path: str
) -> None:
    """The Python client gives up after 20 seconds without an answer."""
    session_id = session_running(client, path, "sleep 20")
    async with attached(server, path, session_id) as socket:
        for _ in range(3):
            assert await (await socket.ping()) < 5


async def test_an_offer_to_compress_is_declined(
    server: ServerProcess, client: httpx.Client, path: str
) -> None:
    """Node's client has misread compressed frames; without an extension there are none."""
    session_id = session_running(client, path, "true")
    async with attached(server, path, session_id) as socket:
        assert socket.request is not None
        assert socket.response is not None
        assert "permessage-deflate" in socket.request.headers["Sec-WebSocket-Extensions"]
        assert "Sec-WebSocket-Extensions" not in socket.response.headers
