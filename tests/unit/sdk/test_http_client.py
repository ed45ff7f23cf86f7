"""Certificates and HTTP/2 of the one HTTP client."""

from __future__ import annotations

import asyncio
import ssl
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest

from opencomputer.sdk.http_client import http_client, speaks_http2
from opencomputer.server.network.proxy.authority import Leaves, new_authority

pytestmark = pytest.mark.anyio

_ANSWER = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nhi"


async def answered(client: httpx.AsyncClient, tls: ssl.SSLContext) -> str:
    """What a server at this machine answers the client that has its address still to be told."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(_ANSWER)
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0, ssl=tls) as server:
        port = server.sockets[0].getsockname()[1]
        async with client:
            return (await client.get(f"https://localhost:{port}/x")).text


async def test_a_node_at_this_machine_may_have_a_certificate_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Proxies of the environment are nothing for this machine, its certificates are."""
    authority = new_authority(datetime.now(UTC))
    tls = Leaves(authority, lambda: datetime.now(UTC)).context("localhost")
    with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
        await answered(http_client(httpx.URL("https://localhost")), tls)
    known = tmp_path / "authority.pem"
    known.write_text(authority.certificate_pem)
    monkeypatch.setenv("SSL_CERT_FILE", str(known))
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:1")
    assert await answered(http_client(httpx.URL("https://localhost")), tls) == "hi"


@pytest.mark.parametrize("installed", [True, False])
def test_http2_needs_tls_and_its_extra(monkeypatch: pytest.MonkeyPatch, installed: bool) -> None:
    def find_spec(name: str) -> object:
        return name if installed else None

    monkeypatch.setattr("opencomputer.sdk.http_client.find_spec", find_spec)
    assert speaks_http2("https") == installed
    assert not speaks_http2("http")
