"""The round trip of `true`, above what the spawn itself costs inside the machine."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass

import httpx

from bench.node import Place, node_at
from bench.report import Result
from bench.samples import Distribution, Figure, Target

_ROUTES = {"run": "exec/run", "run-async": "exec/run-async"}
_TARGETS = {"p50": Target(5), "p95": Target(12)}
_WARM_UP = 10
# As the guest starts a program: vfork and exec from a small process, then wait for its end.
_SPAWN_COST = """
import json, os, time
samples = []
for _ in range(COUNT):
    began = time.perf_counter()
    os.waitpid(os.posix_spawn("/bin/true", ["true"], {}), 0)
    samples.append((time.perf_counter() - began) * 1000)
print(json.dumps(samples))
"""


@dataclass(frozen=True)
class ExecOptions:
    count: int = 300
    place: Place | None = None


def measure(options: ExecOptions) -> Result:
    result = Result("exec", {"count": options.count})
    with node_at(options.place) as running, running.client() as client:
        root = f"/sandboxes/{client.post('/sandboxes', json={}).raise_for_status().json()['sandboxID']}"
        try:
            spawn = _spawn_cost(client, root, options.count)
            result.samples["spawn"] = spawn
            cost = Distribution.of(spawn)
            result.figures.append(Figure("spawn inside: p50", cost.p50, "ms"))
            for name, route in _ROUTES.items():
                trips = _round_trips(client, f"{root}/{route}", options.count, result.failures)
                result.samples[name] = trips
                result.figures += _figures(name, trips, cost)
        finally:
            client.delete(root)
    return result


def _spawn_cost(client: httpx.Client, root: str, count: int) -> list[float]:
    script = _SPAWN_COST.replace("COUNT", str(count))
    body = {"cmd": "python3", "args": ["-I", "-S", "-c", script]}
    return json.loads(client.post(f"{root}/exec/run", json=body).raise_for_status().json()["stdout"])


def _round_trips(client: httpx.Client, url: str, count: int, failures: list[str]) -> list[float]:
    samples: list[float] = []
    for number in range(_WARM_UP + count):
        began = time.perf_counter()
        answer = client.post(url, json={"cmd": "true"})
        taken = (time.perf_counter() - began) * 1000
        if answer.status_code != 200 or answer.json()["exitCode"] != 0:
            failures.append(f"{url}: {answer.status_code} {answer.text[:200]}")
        elif number >= _WARM_UP:
            samples.append(taken)
    return samples


def _figures(name: str, trips: list[float], cost: Distribution) -> list[Figure]:
    whole = Distribution.of(trips)
    above = Distribution.of([trip - cost.p50 for trip in trips])
    return [
        Figure(f"{name}: round trip p50", whole.p50, "ms"),
        Figure(f"{name}: round trip p95", whole.p95, "ms"),
        Figure(f"{name}: above the spawn p50", above.p50, "ms", _TARGETS["p50"]),
        Figure(f"{name}: above the spawn p95", above.p95, "ms", _TARGETS["p95"]),
    ]
