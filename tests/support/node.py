"""A whole node in the test's own event loop, on machines that are ordinary processes: no root needed."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import httpx
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from opencomputer.server.main import create_organisation, node
from opencomputer.server.settings import load_settings
from tests.support.waiting import ANSWER_SECONDS

T = TypeVar("T")
FIRST_KEY = "osb_" + "a1" * 32
_TEMPLATE = {
    "name": "base",
    "hash": "h1",
    "description": "nothing but a name",
    "builtAt": "2026-01-01T00:00:00+00:00",
    "sizeBytes": 0,
    "packages": 0,
}


def make_template(templates: Path, name: str = "base", hash: str = "h1") -> None:
    """An empty template: enough for a driver that needs no files."""
    build = templates / name / hash
    (build / "rootfs").mkdir(parents=True)
    (build / "template.json").write_text(json.dumps({**_TEMPLATE, "name": name, "hash": hash}))
    (templates / name / "current").symlink_to(hash)


@dataclass
class Api:
    """One organisation's way to a node."""

    url: str
    key: str
    client: httpx.AsyncClient

    async def request(self, method: str, path: str, **options: Any) -> httpx.Response:
        """`path` is below `/api`."""
        return await self.client.request(method, f"/api{path}", **options)

    async def get(self, path: str, **options: Any) -> httpx.Response:
        return await self.request("GET", path, **options)

    async def post(self, path: str, **options: Any) -> httpx.Response:
        return await self.request("POST", path, **options)

    async def put(self, path: str, **options: Any) -> httpx.Response:
        return await self.request("PUT", path, **options)

    async def delete(self, path: str, **options: Any) -> httpx.Response:
        return await self.request("DELETE", path, **options)

    async def create(self, **fields: Any) -> dict[str, Any]:
        answer = await self.post("/sandboxes", json=fields)
        assert answer.status_code == 201, answer.text
        return answer.json()

    async def run(self, sandbox: str, script: str, **fields: Any) -> dict[str, Any]:
        body = {"cmd": "sh", "args": ["-c", script], **fields}
        answer = await self.post(f"/sandboxes/{sandbox}/exec/run", json=body)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def start(self, sandbox: str, script: str, **fields: Any) -> str:
        body = {"cmd": "sh", "args": ["-c", script], **fields}
        answer = await self.post(f"/sandboxes/{sandbox}/exec", json=body)
        assert answer.status_code == 201, answer.text
        return answer.json()["sessionID"]

    def socket(self, path: str, *, key: str | None = None, **options: Any) -> connect:
        """A WebSocket below `/api`. With `key` that credential, else the organisation's."""
        address = self.url.replace("http://", "ws://")
        separator = "&" if "?" in path else "?"
        return connect(
            f"{address}/api{path}{separator}api_key={key or self.key}",
            max_size=1 << 20,
            proxy=None,
            open_timeout=60,
            # One who leaves without having read everything would wait for the server's goodbye behind it.
            close_timeout=0.5,
            **options,
        )


@asynccontextmanager
async def api_of(url: str, key: str) -> AsyncGenerator[Api]:
    async with httpx.AsyncClient(base_url=url, headers={"X-API-Key": key}, timeout=ANSWER_SECONDS) as client:
        yield Api(url, key, client)


@dataclass
class NodeFolder:
    """What survives a node: its data, its templates."""

    path: Path

    @property
    def data(self) -> Path:
        return self.path / "data"

    @property
    def templates(self) -> Path:
        return self.path / "templates"

    @asynccontextmanager
    async def running(self, *, notify_socket: str = "", **environment: str) -> AsyncGenerator[str]:
        """Run a node until left; its sandboxes go on. Yields its URL."""
        if not self.templates.exists():
            make_template(self.templates)
        settings = {
            "LISTEN": "127.0.0.1:0",
            "DATA": str(self.data),
            "TEMPLATES": str(self.templates),
            "LOCAL_NODE_FILE": str(self.path / "local-node.json"),
            "DRIVER": "fake",
            "BOOTSTRAP_API_KEY": FIRST_KEY,
            "MODEL_PROVIDER": "scripted",
            "POOL_MAX": "0",
            **environment,
        }
        given = {f"OPENCOMPUTER_{name}": text for name, text in settings.items()}
        async with node(load_settings({**given, "NOTIFY_SOCKET": notify_socket})) as url:
            yield url

    async def second_organisation(self) -> str:
        """Its key."""
        _, key = await create_organisation("another", self.data)
        return key


async def kill_all(api: Api) -> None:
    while sandboxes := (await api.get("/sandboxes")).json():
        for sandbox in sandboxes:
            await api.delete(f"/sandboxes/{sandbox['sandboxID']}")


async def receive_all(socket: ClientConnection) -> list[bytes]:
    """Every message until the server closes, for whatever reason."""
    messages: list[bytes] = []
    with suppress(ConnectionClosed):
        async for message in socket:
            messages.append(message if isinstance(message, bytes) else message.encode())
    return messages


def output(messages: list[bytes], channel: int) -> bytes:
    return b"".join(message[1:] for message in messages if message[0] == channel)
