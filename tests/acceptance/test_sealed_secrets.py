"""Secrets on a real node: used by a real Claude session, changed, copied, put to sleep, and seen nowhere."""

from __future__ import annotations

import asyncio
import mmap
import os
import secrets
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from opencomputer import Sandbox
from tests.acceptance.conftest import Setting
from tests.support.box import Box, new_box
from tests.support.outside_world import API, OutsideWorld
from tests.support.server import ServerProcess

pytestmark = [pytest.mark.anyio, pytest.mark.machines]

TURN_SECONDS = 90
ASK = f'curl -sS -m 8 -H "Authorization: Bearer $API_KEY" https://{API}/ask'


@pytest.fixture
def server(setting: Setting) -> ServerProcess:
    return setting.server


@pytest.fixture
def world(setting: Setting) -> OutsideWorld:
    return setting.world


def store(server: ServerProcess, **values: str) -> str:
    """The path of a new store whose secrets only the small internet's host gets, and its name at its end."""
    name = f"store-{secrets.token_hex(4)}"
    with server.client() as client:
        made = client.post("/secret-stores", json={"name": name}).json()
    for variable, value in values.items():
        put(server, f"/secret-stores/{made['id']}", variable, value)
    return f"/secret-stores/{made['id']}#{name}"


def put(server: ServerProcess, path: str, variable: str, value: str) -> int:
    """Set a secret; how many running sandboxes use it from now on."""
    with server.client() as client:
        body = {"value": value, "allowedHosts": [API]}
        answer = client.put(f"{path.partition('#')[0]}/secrets/{variable}", json=body)
        assert answer.status_code == 200, answer.text
        return answer.json()["refreshed"]


async def test_a_claude_session_works_with_a_key_that_it_never_sees(
    server: ServerProcess, world: OutsideWorld
) -> None:
    name = store(server, ANTHROPIC_API_KEY="sk-real-key").partition("#")[2]
    sandbox = await Sandbox.create(
        api_url=server.url,
        api_key=server.api_key,
        secret_store=name,
        envs={"ANTHROPIC_BASE_URL": f"https://{API}"},
    )
    async with sandbox:
        async with asyncio.timeout(TURN_SECONDS):
            session = await sandbox.agent.start(prompt="run `echo $ANTHROPIC_API_KEY > key.txt`")
            assert await session.wait() == 0, await session.collect_events()
            await session.close()
        assert (await sandbox.files.read("key.txt")).startswith("osb_sealed_")
    assert set(world.model_keys) == {"sk-real-key"}


def test_a_value_is_nowhere_and_a_change_of_it_is_everywhere(
    server: ServerProcess, world: OutsideWorld
) -> None:
    """Through a checkpoint, a fork and a sleep, in which it is changed."""
    first, second = (f"canary-{secrets.token_hex(16)}" for _ in range(2))
    path = store(server, API_KEY=first)
    with new_box(server, secretStore=path.partition("#")[2]) as box:
        box.start("exec sleep 1000")  # its environment is in every memory image
        assert box.output(ASK) == "hello"
        made = box.client.post(f"{box.path}/checkpoints", json={"name": "with-memory", "kind": "full"})
        assert made.status_code in (200, 201, 202), made.text
        with fork_of(box) as fork:
            assert fork.output("echo $API_KEY") != box.output("echo $API_KEY")
            assert fork.output(ASK) == "hello"
            assert put(server, path, "API_KEY", second) == 2
            assert fork.output(ASK) == "hello"
        token = box.output("echo $API_KEY")
        assert box.client.post(f"{box.path}/hibernate").status_code == 200
        images = [place for place in places_of(server, (token,)) if place.endswith("pages.img")]
        assert images, "what is looked for in this way is found"
        third = f"canary-{secrets.token_hex(16)}"
        put(server, path, "API_KEY", third)
        found = [*places_of(server, (first, second, third))]
        assert box.output(ASK) == "hello"
        found += places_of(server, (first, second, third))
        inside = box.output("cat /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n' | sort -u; env")
    assert [each for each in world.secrets_seen if "canary" in each] == [
        f"Bearer {value}" for value in (first, first, second, third)
    ]
    assert found == []
    assert "osb_sealed_" in inside
    assert "canary" not in inside


@contextmanager
def fork_of(box: Box) -> Generator[Box]:
    """A live fork that is killed afterwards."""
    answer = box.client.post(f"{box.path}/fork", json={"count": 1})
    assert answer.status_code == 201, answer.text
    fork = Box(box.server, box.client, answer.json()[0])
    yield fork
    box.client.delete(fork.path)


def places_of(server: ServerProcess, values: tuple[str, ...]) -> Iterator[str]:
    """Where one of them is found in what the node has written, its log, its own or its machines' processes'
    command lines and variables. Memory images are files of the node, and not compressed."""
    wanted = [value.encode() for value in values]
    walked = (Path(folder) / name for folder, _, names in os.walk(server.data.parent) for name in names)
    files = [file for file in walked if file.is_file() and not file.is_symlink()]
    for file in files:
        if contains(file, wanted):
            yield str(file)
    for process in Path("/proc").glob("[0-9]*"):
        for name in ("cmdline", "environ"):
            with suppress(OSError):
                content = (process / name).read_bytes()
                if any(value in content for value in wanted):
                    yield str(process / name)


def contains(file: Path, wanted: list[bytes]) -> bool:
    """Disks of machines are files with large holes, which are passed over."""
    with suppress(OSError, ValueError), file.open("rb") as stream:  # gone meanwhile, or empty
        size = file.stat().st_size
        with mmap.mmap(stream.fileno(), 0, prot=mmap.PROT_READ) as content:
            end = 0
            while end < size:
                start = os.lseek(stream.fileno(), end, os.SEEK_DATA)  # OSError: only a hole is left
                end = os.lseek(stream.fileno(), start, os.SEEK_HOLE)
                if any(content.find(value, start, end) >= 0 for value in wanted):
                    return True
    return False
