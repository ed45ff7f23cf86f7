"""Organisations, keys and tokens, with real machines behind them."""

from __future__ import annotations

import asyncio
from collections.abc import Generator

import httpx
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from opencomputer.server.main import create_organisation
from opencomputer.wire import frames
from tests.api.routes import OF_ONE_SANDBOX, body_of, filled
from tests.support.box import Box, Follower, new_box
from tests.support.server import ServerProcess

pytestmark = pytest.mark.machines


@pytest.fixture(scope="module")
def server(shared_server: ServerProcess) -> ServerProcess:
    """Nothing here is done to the node."""
    return shared_server


@pytest.fixture(scope="module")
def box(server: ServerProcess) -> Generator[Box]:
    with new_box(server) as made:
        yield made


@pytest.fixture(scope="module")
def stranger(server: ServerProcess) -> Generator[httpx.Client]:
    """Another organisation, made while the server runs."""
    _, key = asyncio.run(create_organisation("strangers", server.data))
    with with_credential(server, key) as client:
        yield client


def with_credential(server: ServerProcess, credential: str) -> httpx.Client:
    return httpx.Client(base_url=f"{server.url}/api", headers={"X-API-Key": credential}, timeout=30)


def test_a_foreign_sandbox_is_not_there(box: Box, stranger: httpx.Client) -> None:
    """On every route, with ids of sessions that exist; and nothing is done to it."""
    session_id = box.start("exec sleep 800")
    box.write("kept", b"kept")
    for method, path in OF_ONE_SANDBOX:
        answer = stranger.request(method, filled(path, box.id, session_id), **body_of(path))
        assert answer.status_code == 404, (method, path, answer.text)
    assert stranger.get("/sandboxes?status=all").json() == []
    assert box.session(session_id)["running"]
    assert box.output("ls") == "kept"


def test_a_token_opens_its_own_sandbox_only(server: ServerProcess, box: Box) -> None:
    with new_box(server) as other, with_credential(server, box.description["token"]) as client:
        own = Box(server, client, box.description)
        assert own.output("echo mine") == "mine"
        for method, path in OF_ONE_SANDBOX:
            answer = client.request(method, filled(path, other.id), **body_of(path))
            assert answer.status_code == 403, (method, path, answer.text)
        assert client.get("/sandboxes").status_code == 403
        assert other.output("echo works") == "works"


def test_a_token_ends_with_its_sandbox(server: ServerProcess) -> None:
    with new_box(server) as box, with_credential(server, box.description["token"]) as client:
        assert client.get(box.path).status_code == 200
        box.kill()
        answer = client.post(f"{box.path}/exec/run", json={"cmd": "true"})
        assert answer.status_code in (401, 410)


def test_a_revoked_key_stops_at_once(server: ServerProcess, box: Box) -> None:
    """Requests answer 401, and the stream it holds open is closed; the sandbox goes on."""
    made = box.client.post("/api-keys", json={"name": "short-lived"}).json()
    session_id = box.start("while :; do echo tick; sleep 0.2; done")
    address = server.url.replace("http://", "ws://")
    with with_credential(server, made["key"]) as client:
        url = f"{address}/api{box.path}/exec/{session_id}?api_key={made['key']}"
        with connect(url, proxy=None, open_timeout=60) as socket:
            socket.recv(10)
            assert client.get("/sandboxes").status_code == 200
            assert box.client.delete(f"/api-keys/{made['id']}").status_code in (200, 204)
            assert client.get("/sandboxes").status_code == 401
            with pytest.raises(ConnectionClosed) as closed:
                Follower(socket).read(until=frames.EXIT)
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1008
    with box.attached(session_id) as follower:
        follower.read(until=frames.SCROLLBACK_END)
    assert box.session(session_id)["running"]
    assert made["key"] not in server.log
