"""A sandbox on a real node, driven over plain HTTP and raw WebSockets."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from opencomputer.wire import frames
from tests.support.server import ServerProcess

READ_SECONDS = 120.0


@dataclass
class Box:
    """One sandbox, seen with the key or token of `client`."""

    server: ServerProcess
    client: httpx.Client
    description: dict[str, Any]

    @property
    def id(self) -> str:
        return self.description["sandboxID"]

    @property
    def path(self) -> str:
        return f"/sandboxes/{self.id}"

    def run(self, script: str, **fields: Any) -> dict[str, Any]:
        """What `sh -c` answers."""
        body = {"cmd": "sh", "args": ["-c", script], **fields}
        answer = self.client.post(f"{self.path}/exec/run", json=body)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def output(self, script: str, **fields: Any) -> str:
        """Standard output of a command that must succeed, without white space around it."""
        result = self.run(script, **fields)
        assert result["exitCode"] == 0, result
        return result["stdout"].strip()

    def start(self, script: str, **fields: Any) -> str:
        """The id of a session."""
        body = {"cmd": "sh", "args": ["-c", script], **fields}
        answer = self.client.post(f"{self.path}/exec", json=body)
        assert answer.status_code == 201, answer.text
        return answer.json()["sessionID"]

    def session(self, session_id: str) -> dict[str, Any]:
        listed = self.client.get(f"{self.path}/exec").json()
        return next(each for each in listed if each["sessionID"] == session_id)

    def read(self, path: str) -> httpx.Response:
        return self.client.get(f"{self.path}/files", params={"path": path})

    def write(self, path: str, content: bytes | Iterator[bytes]) -> httpx.Response:
        return self.client.put(f"{self.path}/files", params={"path": path}, content=content)

    def kill(self) -> None:
        assert self.client.delete(self.path).status_code == 204

    def described(self) -> dict[str, Any]:
        return self.client.get(self.path).json()

    def ask(self, what: str, status: int, **body: Any) -> Any:
        """Post to something below the sandbox; the answer must have this status."""
        answer = self.client.post(f"{self.path}/{what}", json=body)
        assert answer.status_code == status, answer.text
        return answer.json() if answer.content else None

    def hibernate(self) -> dict[str, Any]:
        return self.ask("hibernate", 200)

    def wake(self, **body: Any) -> dict[str, Any]:
        return self.ask("wake", 200, **body)

    def checkpoint(self, name: str, **fields: Any) -> str:
        """The id of a checkpoint that may still be processing."""
        return self.ask("checkpoints", 201, name=name, **fields)["id"]

    def checkpoints(self) -> list[dict[str, Any]]:
        return self.client.get(f"{self.path}/checkpoints").json()

    def settled(self, checkpoint_id: str) -> dict[str, Any]:
        """A checkpoint once it is ready or has failed."""
        deadline = time.monotonic() + READ_SECONDS
        while True:
            found = next(each for each in self.checkpoints() if each["id"] == checkpoint_id)
            if found["status"] != "processing":
                return found
            assert time.monotonic() < deadline, "the checkpoint is still processing"
            time.sleep(0.02)

    def ready_checkpoint(self, name: str, **fields: Any) -> str:
        found = self.settled(self.checkpoint(name, **fields))
        assert found["status"] == "ready", found
        return found["id"]

    def restore(self, checkpoint_id: str) -> None:
        self.ask(f"checkpoints/{checkpoint_id}/restore", 200)

    def forks(self, count: int = 1, **fields: Any) -> list[Box]:
        """Live forks. Whoever makes them kills them."""
        made = self.ask("fork", 201, count=count, **fields)
        return [Box(self.server, self.client, each) for each in made]

    def from_checkpoint(self, checkpoint_id: str, **fields: Any) -> Box:
        """A new sandbox, whoever's checkpoint it is."""
        answer = self.client.post(f"/sandboxes/from-checkpoint/{checkpoint_id}", json=fields)
        assert answer.status_code == 201, answer.text
        return Box(self.server, self.client, answer.json())

    @contextmanager
    def attached(self, session_id: str, kind: str = "exec") -> Generator[Follower]:
        address = self.server.url.replace("http://", "ws://")
        url = f"{address}/api{self.path}/{kind}/{session_id}"
        headers = {"X-API-Key": self.server.api_key}
        with connect(
            url, additional_headers=headers, max_size=1 << 20, proxy=None, open_timeout=60
        ) as socket:
            yield Follower(socket)


class Follower:
    """Reads the frames of one attached session. What came is kept by channel."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket
        self.got: dict[int, bytes] = dict.fromkeys(range(5), b"")
        self.order: list[int] = []

    def read(self, *, until: int | None = None, holding: bytes = b"", times: int = 1) -> None:
        """Read until a frame of a channel, or until standard output holds something so many times."""
        deadline = time.monotonic() + READ_SECONDS
        while True:
            if holding and self.got[frames.STDOUT].count(holding) >= times:
                return
            try:
                message = self.socket.recv(deadline - time.monotonic())
            except ConnectionClosed as closed:
                closed.add_note("before: " + str({number: data[-300:] for number, data in self.got.items()}))
                raise
            frame = frames.decode(message) if isinstance(message, bytes) else None
            if frame is None:
                continue
            self.got[frame.channel] += frame.payload
            self.order.append(frame.channel)
            if frame.channel == until:
                return

    def lines(self, channel: int = frames.STDOUT) -> list[bytes]:
        """Complete lines."""
        return self.got[channel].split(b"\n")[:-1]

    def send(self, data: bytes) -> None:
        self.socket.send(frames.encode(frames.STDIN, data))


@contextmanager
def new_box(server: ServerProcess, **fields: Any) -> Generator[Box]:
    """A sandbox that is killed afterwards. Outlives a restart of its node."""
    with server.client() as client:
        box = create_box(server, client, **fields)
        try:
            yield box
        finally:
            client.delete(box.path)


def create_box(server: ServerProcess, client: httpx.Client, **fields: Any) -> Box:
    answer = client.post("/sandboxes", json=fields)
    assert answer.status_code == 201, answer.text
    return Box(server, client, answer.json())
