"""The egress proxy behind the real packet filter, with real resolution, and the clients that people use."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import dns.message
import dns.rrset
import pytest

from opencomputer.server.clock import SystemClock
from opencomputer.server.contracts.network import Link
from opencomputer.server.domain.egress import SYSTEM_BUNDLE, EgressMode, proxy_environment
from opencomputer.server.network.egress_table import EgressTableInMemory
from opencomputer.server.network.proxy.assembly import Surroundings, egress_proxy
from opencomputer.server.network.proxy.authority import Leaves, new_authority
from opencomputer.server.network.proxy.proxy import EgressProxy
from tests.support.egress import (
    TOKEN,
    VALUE,
    EventList,
    Recorder,
    ToldNames,
    now,
    rules,
    secret,
    until_its_end,
)
from tests.support.namespaces import Namespace
from tests.support.network_world import PUBLIC, World

pytestmark = [pytest.mark.anyio, pytest.mark.machines]

HOST, SNEAKY = "api.example.com", "sneaky.example.com"
_NAMES = {f"{HOST}.": PUBLIC, f"{SNEAKY}.": "10.77.0.7", "other.example.com.": PUBLIC}
_CURL = ["curl", "--silent", "--show-error", "--max-time", "15", "--write-out", "%{http_code}"]
_HTTPX = "import httpx,sys; print(httpx.post(sys.argv[1], content=b'x'*300000 + sys.argv[2].encode()).text)"
_REQUESTS = "import requests,sys; print(requests.get(sys.argv[1], auth=('user', sys.argv[2])).text)"
_NODE = """
const [host, address, token] = process.argv.slice(1);
const found = [{address, family: 4}];
const lookup = (name, options, done) => options.all ? done(null, found) : done(null, address, 4);
require('https').request({host, lookup, method: 'POST'}, answer => answer.pipe(process.stdout))
    .end(JSON.stringify({key: token}));
"""


class _NameServer(asyncio.DatagramProtocol):
    """Knows the addresses above, and nothing else."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.DatagramTransport, transport)

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        question = dns.message.from_wire(data)
        answer = dns.message.make_response(question)
        name, kind = question.question[0].name, question.question[0].rdtype.name
        if kind == "A" and str(name) in _NAMES:
            answer.answer.append(dns.rrset.from_text(name, 60, "IN", "A", _NAMES[str(name)]))
        self._transport.sendto(answer.to_wire(), addr)


@dataclass
class Setting:
    """A machine, its proxy, and a host that takes down what it gets."""

    machine: Namespace
    link: Link
    table: EgressTableInMemory
    log: EventList
    told: ToldNames
    proxy: EgressProxy
    recorder: Recorder
    bundle: Path

    async def run(self, *argv: str, proxy: bool) -> str:
        """A program in the machine, which knows of the proxy or not; what it prints."""
        environment = {
            name: str(self.bundle) if value == SYSTEM_BUNDLE else value
            for name, value in proxy_environment().items()
            if proxy or value == SYSTEM_BUNDLE
        }
        pairs = [f"{name}={value}" for name, value in environment.items()]
        path = f"PATH={os.environ['PATH']}"
        return await asyncio.to_thread(self.machine.run, ["env", "-i", path, *pairs, *argv])


@asynccontextmanager
async def _setting(world: World, folder: Path, mode: EgressMode) -> AsyncGenerator[Setting]:
    machine, link = world.machine(mode)
    table, log, told, recorder = EgressTableInMemory(), EventList(), ToldNames(), Recorder()
    authority, public = new_authority(now()), new_authority(now())
    surroundings = Surroundings(table, log, told, SystemClock(), lambda: [(PUBLIC, 53)])
    proxy = egress_proxy(surroundings, authority, ssl.create_default_context(cadata=public.certificate_pem))
    bundle = folder / "bundle.pem"
    bundle.write_text(public.certificate_pem + authority.certificate_pem)
    config = world.network.config
    https = world.outside.call(lambda: socket.create_server((PUBLIC, 443)))
    names = world.outside.call(_name_socket)
    leaves = Leaves(public, now)
    server = await asyncio.start_server(until_its_end(recorder), sock=https, ssl=leaves.context(HOST))
    loop = asyncio.get_running_loop()
    resolver, _ = await loop.create_datagram_endpoint(_NameServer, sock=names)
    await proxy.open(world.network.node_address, config.proxy_port, config.transparent_port)
    try:
        yield Setting(machine, link, table, log, told, proxy, recorder, bundle)
    finally:
        await proxy.close()
        resolver.close()
        server.close()


def _name_socket() -> socket.socket:
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.bind((PUBLIC, 53))
    return sock


async def test_a_secret_gets_to_its_host_whatever_program_sends_it(world: World, tmp_path: Path) -> None:
    url = f"https://{HOST}/"
    async with _setting(world, tmp_path, EgressMode.WATCHED) as setting:
        setting.table.admit(setting.link.guest_address, rules(secret(HOST)))
        got = setting.recorder.requests
        header = ["--header", f"X-Key: {TOKEN}", url]
        assert await setting.run(*_CURL, *header, proxy=True) == "ok200"
        assert got[-1].header("x-key") == VALUE
        assert await setting.run(*_CURL, "--resolve", f"{HOST}:443:{PUBLIC}", *header, proxy=False) == "ok200"
        assert got[-1].header("x-key") == VALUE
        big = ["--data-binary", f"@{_file(tmp_path)}", url]
        assert await setting.run(*_CURL, *big, proxy=True) == "ok200"
        assert got[-1].body == b"y" * 2_000_000 + VALUE.encode()
        assert await setting.run(sys.executable, "-c", _HTTPX, url, TOKEN, proxy=True) == "ok\n"
        assert got[-1].body == b"x" * 300_000 + VALUE.encode()
        assert await setting.run(sys.executable, "-c", _REQUESTS, url, TOKEN, proxy=True) == "ok\n"
        assert (got[-1].header("authorization") or "").startswith("Basic ")
        assert TOKEN not in str(got)
        assert await setting.run("node", "-e", _NODE, HOST, PUBLIC, TOKEN, proxy=False) == "ok"
        assert got[-1].body == f'{{"key":"{VALUE}"}}'.encode()
    assert {(event.host, event.decision, event.secrets) for event in setting.log.events} == {
        (HOST, "allowed", ("API_KEY",))
    }


async def test_nothing_gets_past_a_list_and_nothing_out_without_the_proxy(
    world: World, tmp_path: Path
) -> None:
    async with _setting(world, tmp_path, EgressMode.RESTRICTED) as setting:
        setting.table.admit(setting.link.guest_address, rules(allow=[HOST, SNEAKY]))
        permitted = [*_CURL, "--resolve", f"{HOST}:443:{PUBLIC}", f"https://{HOST}/"]
        assert await setting.run(*permitted, proxy=False) == "ok200"
        other = [*_CURL, "--resolve", f"other.example.com:443:{PUBLIC}", "https://other.example.com/"]
        assert "not on this sandbox's egress allowlist" in await setting.run(*other, proxy=False)
        refused = await setting.run(*_CURL, "--insecure", f"https://{PUBLIC}/", "--verbose", proxy=False)
        assert refused.endswith("403")
        explicit = await setting.run(
            "sh", "-c", f"{' '.join(_CURL[:-2])} https://{PUBLIC}/ 2>&1 || :", proxy=True
        )
        assert "403" in explicit
        sneaky = await setting.run(
            "sh", "-c", f"{' '.join(_CURL[:-2])} https://{SNEAKY}/ 2>&1 || :", proxy=True
        )
        assert "403" in sneaky
        reasons = {event.reason for event in setting.log.events}
        assert reasons == {None, "allowlist", "unnamed", "blocked_address"}
        await setting.proxy.close()
        closed = await setting.run("sh", "-c", f"{' '.join(permitted)} 2>&1 || :", proxy=False)
        assert "refused" in closed.lower() or "connect" in closed.lower()
        assert len(setting.recorder.requests) == 1


def _file(folder: Path) -> Path:
    file = folder / "body"
    file.write_bytes(b"y" * 2_000_000 + TOKEN.encode())
    return file
