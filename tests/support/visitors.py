"""Visitors of previews: they know a host name and nothing of the server's address."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import httpx
from websockets.asyncio.client import connect

from tests.support.waiting import ANSWER_SECONDS


@dataclass(frozen=True)
class Visitor:
    """Comes to `host` on the server at `url`, with `headers`."""

    url: str
    host: str
    headers: dict[str, str]

    @property
    def at(self) -> tuple[str, int]:
        parts = urlsplit(self.url)
        assert parts.hostname is not None
        assert parts.port is not None
        return parts.hostname, parts.port

    def client(self) -> httpx.AsyncClient:
        """Goes to the server, whatever the name would resolve to; follows nothing."""
        headers = {"Host": f"{self.host}:{self.at[1]}", **self.headers}
        return httpx.AsyncClient(base_url=self.url, headers=headers, timeout=ANSWER_SECONDS)

    async def get(self, path: str, **options: Any) -> httpx.Response:
        return await self.request("GET", path, **options)

    async def request(self, method: str, path: str, **options: Any) -> httpx.Response:
        async with self.client() as client:
            return await client.request(method, path, **options)

    async def events(self, count: int) -> list[str]:
        """The first events of very many: they come only where nobody waits for the last."""
        found: list[str] = []
        async with self.client() as client, client.stream("GET", "/events?100000") as answer:
            async for line in answer.aiter_lines():
                found += [line] if line else []
                if len(found) == count:
                    break
        return found

    async def raw(self, request: bytes) -> bytes:
        """The whole answer to a request as it stands; `HOST` in it is the host name."""
        reader, writer = await asyncio.open_connection(*self.at)
        writer.write(request.replace(b"HOST", self.host.encode()))
        try:
            return await reader.read()
        finally:
            writer.close()

    def socket(self, path: str, **options: Any) -> connect:
        address, port = self.at
        return connect(
            f"ws://{self.host}:{port}{path}",
            host=address,
            port=port,
            proxy=None,
            open_timeout=60,
            additional_headers=self.headers,
            compression=None,
            max_size=32 << 20,
            **options,
        )


def visitor(url: str, sandbox: str, port: int, domain: str = "localhost", **headers: str) -> Visitor:
    """One who comes to a port of a sandbox. Underscores in names of headers stand for hyphens."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Visitor(url, f"{sandbox}-p{port}.{domain}", named)
