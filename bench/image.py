"""Declarative images: the first create, which builds, and those that find the image built."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import httpx

from bench.node import Place, node_at
from bench.report import Result
from bench.samples import Distribution, Figure, Target
from bench.saved import Sandbox, create

_TO_HOLD = Target(2000)


@dataclass(frozen=True)
class ImageOptions:
    rounds: int = 20
    place: Place | None = None


def measure(options: ImageOptions) -> Result:
    result = Result("image", {"rounds": options.rounds})
    steps = [
        {"type": "run", "args": {"commands": ["head -c 8M /dev/urandom > ~/data", f"echo {time.time_ns()}"]}},
        {"type": "env", "args": {"vars": {"MODE": "bench"}}},
        {"type": "workdir", "args": {"path": "/work"}},
    ]
    manifest = {"base": "base", "steps": steps}
    with node_at(options.place) as running, running.client() as client:
        running.await_full_pool()
        try:
            result.samples["build"] = build = _create(client, manifest)
            cached = [_create(client, manifest) for _ in range(options.rounds)]
            plain = [_plain(client) for _ in range(options.rounds)]
        except (httpx.HTTPError, AssertionError) as error:
            result.failures.append(repr(error))
            return result
    found = Distribution.of(cached)
    result.samples |= {"cached": cached, "plain": plain}
    result.figures += [
        Figure("first create, which builds", build, "ms"),
        Figure("cached create → first exec p50", found.p50, "ms", _TO_HOLD),
        Figure("cached create → first exec p95", found.p95, "ms", _TO_HOLD),
        Figure("plain create → first exec p50", Distribution.of(plain).p50, "ms"),
        Figure("cached: times a plain create", found.p50 / Distribution.of(plain).p50, "×"),
    ]
    return result


def _create(client: httpx.Client, manifest: Mapping[str, Any]) -> float:
    began = time.perf_counter()
    headers = {"Accept": "text/event-stream"}
    made: dict[str, Any] = {}
    with client.stream("POST", "/sandboxes", json={"image": manifest}, headers=headers) as answer:
        answer.raise_for_status()
        event = ""
        for line in answer.iter_lines():
            if line.startswith("event: "):
                event = line.removeprefix("event: ")
            elif line.startswith("data: ") and event in ("result", "error"):
                made = json.loads(line.removeprefix("data: "))
    if "sandboxID" not in made:
        raise AssertionError(f"no sandbox: {made}")
    sandbox = Sandbox(client, made["sandboxID"])
    try:
        if sandbox.run("echo $MODE $PWD").split() != ["bench", "/work"]:
            raise AssertionError("the sandbox does not have what its image says")
        return 1000 * (time.perf_counter() - began)
    finally:
        client.delete(sandbox.path)


def _plain(client: httpx.Client) -> float:
    began = time.perf_counter()
    sandbox = create(client)
    sandbox.run("true")
    elapsed = 1000 * (time.perf_counter() - began)
    client.delete(sandbox.path)
    return elapsed
