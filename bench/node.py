"""The node that is measured: one of our own with an empty data folder, or one that runs already."""

from __future__ import annotations

import json
import re
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from opencomputer.server.host.cgroups import Groups, GroupUsage
from tests.support.server import ServerProcess, running_server

_POOL_SECONDS = 180.0
_POOL_STEADY_SECONDS = 4.0
_READY_MACHINES = re.compile(r"^opencomputer_pool_ready\{[^}]*\} ([0-9.]+)$", re.MULTILINE)


@dataclass(frozen=True)
class Place:
    """Where a node that runs already is."""

    url: str
    api_key: str


@dataclass(frozen=True)
class Node:
    """`process` is None for a node that is not ours: then nothing can be said about its memory."""

    url: str
    api_key: str
    process: ServerProcess | None = None

    @property
    def process_id(self) -> int | None:
        running = self.process.process if self.process is not None else None
        return None if running is None else running.pid

    def client(self) -> httpx.Client:
        return httpx.Client(base_url=f"{self.url}/api", headers={"X-API-Key": self.api_key}, timeout=120)

    def machine_usage(self) -> dict[str, GroupUsage]:
        """What each machine of a node of our own uses of the host, by machine."""
        assert self.process is not None
        tag = json.loads((self.process.data / "node.json").read_text())["tag"]
        groups = Groups.of_this_host(f"opencomputer-{tag}")
        return {name: groups.group(name).usage() for name in groups.names()}

    def await_full_pool(self) -> int:
        """Wait until the pool no longer grows. Returns how many machines are ready."""
        deadline = time.monotonic() + _POOL_SECONDS
        size, since = -1, time.monotonic()
        while time.monotonic() < deadline:
            found = self._ready_machines()
            if found != size:
                size, since = found, time.monotonic()
            elif time.monotonic() - since > _POOL_STEADY_SECONDS:
                break
            time.sleep(0.5)
        return max(size, 0)

    def _ready_machines(self) -> int:
        found = _READY_MACHINES.findall(httpx.get(f"{self.url}/metrics").text)
        return int(sum(map(float, found)))


@contextmanager
def node_at(place: Place | None, **settings: str) -> Generator[Node]:
    """The node at `place`, else a fresh one with these settings, gone afterwards."""
    if place is not None:
        yield Node(place.url, place.api_key)
        return
    with tempfile.TemporaryDirectory(prefix="opencomputer-bench-") as folder:
        # Tests keep their pools small; an empty setting is the default.
        usual = {"LOG_LEVEL": "warning", "POOL_MIN": "", "POOL_MAX": ""}
        settings = {**{f"OPENCOMPUTER_{name}": value for name, value in usual.items()}, **settings}
        with running_server(Path(folder), golden_given=False, **settings) as server:
            yield Node(server.url, server.api_key, server)
