"""From creating a durable session to the first request that its engine makes to the model.

The provider is one of our own that notes when it is asked and rejects the key, which ends the turn at once.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx

from bench.node import Node, node_at
from bench.report import Result
from bench.samples import Distribution, Figure, Target

_ASK_SECONDS = 60.0
_WARM_SECONDS = 6.0
_TO_HOLD = Target(1000)
_SKILL = {
    "path": "greeting/SKILL.md",
    "content": "---\nname: greeting\ndescription: how to greet\n---\nPolitely.",
}
_AGENT = {"prompt": "You help.", "model": "anthropic/claude-sonnet-5"}


@dataclass(frozen=True)
class FirstCallOptions:
    rounds: int = 10


@dataclass
class _Provider:
    """`asked_at`: when a request came in, by this process's clock."""

    url: str = ""
    asked_at: float | None = None
    changed: threading.Condition = field(default_factory=threading.Condition)

    def asked(self) -> None:
        with self.changed:
            if self.asked_at is None:
                self.asked_at = time.perf_counter()
            self.changed.notify_all()

    def await_request(self) -> float:
        with self.changed:
            if not self.changed.wait_for(lambda: self.asked_at is not None, _ASK_SECONDS):
                raise TimeoutError("the model was not asked")
            assert self.asked_at is not None
            return self.asked_at


def measure(options: FirstCallOptions) -> Result:
    result = Result("first_call", {"rounds": options.rounds})
    with _provider() as provider, node_at(None, OPENCOMPUTER_ANTHROPIC_BASE_URL=provider.url) as node:
        node.await_full_pool()
        try:
            _measure(node, provider, options.rounds, result)
        except (httpx.HTTPError, TimeoutError) as error:
            result.failures.append(repr(error))
    return result


def _measure(node: Node, provider: _Provider, rounds: int, result: Result) -> None:
    headers = {"X-API-Key": node.api_key}
    with httpx.Client(base_url=f"{node.url}/v3", headers=headers, timeout=60) as client, node.client() as api:
        body = {"provider": "anthropic", "key": "sk-ant-of-the-bench", "is_default": True}
        _post(client, "/credentials", body)
        plain = _post(client, "/agents", {"name": "plain", **_AGENT})["id"]
        skilled = _post(client, "/agents", {"name": "skilled", **_AGENT})["id"]
        deployment = {"type": "inline", "prompt": _AGENT["prompt"], "skills": [_SKILL]}
        _post(client, f"/agents/{skilled}/deployments", {"input": deployment})

        def once(agent: str) -> float:
            return _once(client, api, provider, agent)

        cold = [once(skilled) for _ in range(rounds)]
        once(plain)
        pooled: list[float] = []
        for _ in range(rounds):
            time.sleep(_WARM_SECONDS)
            pooled.append(once(plain))
    result.samples |= {"cold": cold, "pooled": pooled}
    for name, samples in (("cold", cold), ("pooled", pooled)):
        spread = Distribution.of(samples)
        target = _TO_HOLD if name == "pooled" else None
        result.figures += [
            Figure(f"create → first model call, {name}: p50", spread.p50, "ms", target),
            Figure(f"create → first model call, {name}: p95", spread.p95, "ms", target),
        ]


def _once(client: httpx.Client, api: httpx.Client, provider: _Provider, agent: str) -> float:
    provider.asked_at = None
    began = time.perf_counter()
    session = _post(client, "/sessions", {"agent": agent, "input": "hello"})["session"]["id"]
    took = (provider.await_request() - began) * 1000
    while (now := client.get(f"/sessions/{session}").json())["status"] in ("queued", "running"):
        time.sleep(0.1)
    # It would go on taking memory until it is put to sleep.
    api.delete(f"/sandboxes/{now['sandboxes']['brain']}")
    return took


def _post(client: httpx.Client, path: str, body: dict[str, Any]) -> dict[str, Any]:
    return client.post(path, json=body).raise_for_status().json()


@contextmanager
def _provider() -> Generator[_Provider]:
    provider = _Provider()
    error = {"type": "authentication_error", "message": "invalid x-api-key"}
    answer = json.dumps({"type": "error", "error": error}).encode()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            provider.asked()
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.send_response(401)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        provider.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield provider
        finally:
            server.shutdown()
            thread.join()
