"""A real node as a process of its own, with a data folder of its own, ended and cleaned up after."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from tests.support.golden_seed import GoldenSeed

TEMPLATES = Path(os.environ.get("OPENCOMPUTER_TEMPLATES", "/var/lib/opencomputer/templates"))
_START_SECONDS = 90.0
_STOP_SECONDS = 60.0
_SEED = GoldenSeed()
_PROGRAM = (
    "import sys; from pathlib import Path; from opencomputer.server.main import serve; "
    "serve(sys.argv[3], Path(sys.argv[1]), Path(sys.argv[2]))"
)


@dataclass
class ServerProcess:
    """One node. `start` may be called again after `kill` or `stop`: data folder and address stay."""

    data: Path
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    process: subprocess.Popen[bytes] | None = None
    listen: str = "127.0.0.1:0"

    @property
    def _local_node(self) -> Path:
        return self.data / "local-node.json"

    @property
    def log(self) -> str:
        return (self.data.parent / f"{self.data.name}.log").read_text()

    @property
    def node_tag(self) -> str:
        return json.loads((self.data / "node.json").read_text())["tag"]

    @property
    def url(self) -> str:
        return json.loads(self._local_node.read_text())["apiUrl"]

    @property
    def api_key(self) -> str:
        return json.loads(self._local_node.read_text())["apiKey"]

    def start(self) -> None:
        """Start and wait until it is ready."""
        self._local_node.unlink(missing_ok=True)
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("OPENCOMPUTER_")},
            "OPENCOMPUTER_LOCAL_NODE_FILE": str(self._local_node),
            "OPENCOMPUTER_MODEL_PROVIDER": "scripted",
            "OPENCOMPUTER_POOL_MIN": "2",
            "OPENCOMPUTER_POOL_MAX": "4",
            **self.environment,
        }
        with open(self.data.parent / f"{self.data.name}.log", "ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-c", _PROGRAM, str(self.data), str(TEMPLATES), self.listen],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._await_ready()

    def _await_ready(self) -> None:
        assert self.process is not None
        deadline = time.monotonic() + _START_SECONDS
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise RuntimeError(f"the server ended with {self.process.returncode}:\n{self.log[-4000:]}")
            if self._local_node.exists() and self._is_ready():
                self.listen = self.url.removeprefix("http://")
                return
            time.sleep(0.05)
        raise RuntimeError(f"the server was not ready in time:\n{self.log[-4000:]}")

    def _is_ready(self) -> bool:
        try:
            return httpx.get(f"{self.url}/readyz", timeout=2).status_code == 200
        except httpx.HTTPError:
            return False

    def kill(self) -> None:
        """SIGKILL: nothing is put in order."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """SIGTERM, and wait for the orderly end."""
        self._end(signal.SIGTERM)

    def _end(self, number: signal.Signals) -> None:
        if self.process is None:
            return
        if self.process.poll() is None:
            self.process.send_signal(number)
        try:
            self.process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise
        finally:
            self.process = None

    def client(self) -> httpx.Client:
        """A client of `/api` with this node's first key."""
        return httpx.Client(base_url=f"{self.url}/api", headers={"X-API-Key": self.api_key}, timeout=120)

    def kill_sandboxes(self) -> None:
        with self.client() as client:
            for sandbox in client.get("/sandboxes").json():
                client.delete(f"/sandboxes/{sandbox['sandboxID']}")


@contextmanager
def running_server(
    folder: Path, *, golden_given: bool = True, **environment: str
) -> Generator[ServerProcess]:
    """A ready node; afterwards its sandboxes, processes and host resources are gone, whatever happened.

    Its golden image may be one that another node of this run has made, unless `golden_given` is False.
    """
    server = ServerProcess(folder / "data", environment)
    folder.mkdir(parents=True, exist_ok=True)
    if golden_given:
        _SEED.give(server.data)
    try:
        server.start()
        yield server
    finally:
        if server.process is None or server.process.poll() is not None:
            server.process = None
            server.start()
        try:
            server.kill_sandboxes()
        finally:
            server.stop()
        _SEED.take(server.data)
