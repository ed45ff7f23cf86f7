"""The fake server itself: state, faults to order, and a thread that serves."""

from __future__ import annotations

import asyncio
import itertools
import socket
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

import uvicorn

from tests.support.fake_node.durable_routes import Durable
from tests.support.fake_node.sessions import FakeSession, ProcessSession
from tests.support.fake_node.terminal import FakeTerminal

T = TypeVar("T")

API_KEY = "osb_" + "0123456789abcdef" * 4
_START_SECONDS = 10.0


@dataclass
class Rule:
    """What to answer with instead of the real thing, for the first `times` matching requests.

    It may be for a path that the fake does not know otherwise.
    """

    method: str
    path: str
    status: int
    body: object = None
    headers: dict[str, str] = field(default_factory=dict[str, str])
    times: int = 1


@dataclass(frozen=True)
class Seen:
    """One request as it arrived."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: object


@dataclass
class FakeSandbox:
    """One sandbox's state."""

    description: dict[str, object]
    sessions: dict[str, FakeSession] = field(default_factory=dict[str, FakeSession])
    terminals: dict[str, FakeTerminal] = field(default_factory=dict[str, FakeTerminal])
    files: dict[str, bytes] = field(default_factory=dict[str, bytes])
    directories: set[str] = field(default_factory=lambda: {"/"})
    env: dict[str, str] = field(default_factory=dict[str, str])


class _Server(uvicorn.Server):
    """Ends when it is told to, and not some tenths of a second later: a run of all tests has a thousand."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.told_to_end = asyncio.Event()

    async def main_loop(self) -> None:
        await self.on_tick(0)
        await self.told_to_end.wait()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for server in self.servers:
            server.close()
        for connection in list(self.server_state.connections):
            connection.shutdown()
        await asyncio.sleep(0)


class FakeNode:
    """Use it as a context manager; `url` and `api_key` are for the client under test."""

    def __init__(self) -> None:
        self.api_key = API_KEY
        self.rules: list[Rule] = []
        self.seen: list[Seen] = []
        self.sandboxes: dict[str, FakeSandbox] = {}
        self.durable = Durable()
        self.keys: dict[str, dict[str, object]] = {}
        self.checkpoints: dict[str, dict[str, object]] = {}
        self.checkpoint_ends: dict[str, object] = {"status": "ready", "sizeBytes": 5 << 20}
        self.patches: dict[str, dict[str, dict[str, object]]] = {}
        self.patch_numbers: dict[str, Iterator[int]] = {}
        self.log: list[dict[str, object]] = []
        self.log_cuts: list[int] = []
        self.changes: list[dict[str, object]] = []
        self.snapshots: dict[str, dict[str, object]] = {}
        self.snapshot_ends: dict[str, object] = {"status": "ready", "checkpointId": "cp-of-image"}
        self.images: list[dict[str, object]] = []
        self.build_log: list[str] = []
        self.build_error: str | None = None
        self.build_is_cut = False
        self.results: dict[str, tuple[FakeSession, list[str]]] = {}
        self.run_async_supported = True
        self.agent_answer: list[dict[str, object]] = []
        self.now: Callable[[], str] = lambda: "2026-01-02T03:04:05Z"
        self._ids = itertools.count(1)
        self._loop: asyncio.AbstractEventLoop | None = None
        # asyncio switches Nagle's delay off only where the protocol is named.
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        self._socket.bind(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._serve, name="fake node", daemon=True)
        self._server: _Server | None = None

    @property
    def url(self) -> str:
        """The origin to talk to."""
        return f"http://127.0.0.1:{self._socket.getsockname()[1]}"

    def next_id(self) -> str:
        """Eight hex digits, counting up."""
        return f"{next(self._ids):08x}"

    def add_sandbox(self, **fields: object) -> FakeSandbox:
        """A running sandbox."""
        sandbox_id = f"sb-{self.next_id()}"
        description: dict[str, object] = {
            "sandboxID": sandbox_id,
            "status": "running",
            "templateID": "base",
            "connectURL": f"{self.url}/api",
            "token": "token-of-" + sandbox_id,
            "sandboxDomain": "preview.test",
            "cpuCount": 1,
            "memoryMB": 4096,
            "startedAt": self.now(),
        }
        sandbox = FakeSandbox(description | fields)
        self.sandboxes[sandbox_id] = sandbox
        return sandbox

    def requests(self, method: str, suffix: str) -> list[Seen]:
        """The requests of a method whose path ends so."""
        return [seen for seen in self.seen if seen.method == method and seen.path.endswith(suffix)]

    def do(self, function: Callable[..., T], *arguments: Any) -> T:
        """Call a function in the server's own thread and return what it returns."""

        async def call() -> T:
            return function(*arguments)

        return self.run(call())

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the server's own loop."""
        assert self._loop
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(_START_SECONDS)

    def __enter__(self) -> FakeNode:
        self._thread.start()
        deadline = time.monotonic() + _START_SECONDS
        while not (self._server and self._server.started):
            assert time.monotonic() < deadline, "the fake node did not start"
            threading.Event().wait(0.005)
        return self

    def __exit__(self, *_: object) -> None:
        self.run(self._end_processes())
        assert self._server
        self.do(self._server.told_to_end.set)
        self._thread.join(_START_SECONDS)
        self._socket.close()

    async def _end_processes(self) -> None:
        sessions = [session for sandbox in self.sandboxes.values() for session in sandbox.sessions.values()]
        sessions += [session for session, _ in self.results.values()]
        for session in sessions:
            if isinstance(session, ProcessSession):
                await session.stop()
            else:
                session.drop()
        for sandbox in self.sandboxes.values():
            for terminal in sandbox.terminals.values():
                await terminal.stop()

    def _serve(self) -> None:
        from tests.support.fake_node.routes import application

        config = uvicorn.Config(
            application(self), log_level="critical", lifespan="off", loop="asyncio", access_log=False
        )
        self._server = _Server(config)
        self._loop = asyncio.new_event_loop()
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._server.serve(sockets=[self._socket]))
        self._loop.run_until_complete(_cancel_the_rest())
        self._loop.close()


async def _cancel_the_rest() -> None:
    rest = asyncio.all_tasks() - {asyncio.current_task()}
    for task in rest:
        task.cancel()
    await asyncio.gather(*rest, return_exceptions=True)
