"""What one idle machine adds to the host: memory, and processor time once it is frozen."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

import httpx

from bench.node import node_at
from bench.processes import resident_bytes
from bench.report import Result
from bench.samples import Distribution, Figure, Target
from opencomputer.server.host.cgroups import GroupUsage

_SETTLE_SECONDS = 5.0
_WATCH_SECONDS = 20.0
_MEBIBYTE = 1 << 20
_MEMORY = Target(40)


@dataclass(frozen=True)
class DensityOptions:
    count: int = 30


def measure(options: DensityOptions) -> Result:
    """On a node of our own and without a pool: what others run on it could not be told apart."""
    result = Result("density", {"count": options.count, "watchSeconds": _WATCH_SECONDS})
    with node_at(None, OPENCOMPUTER_POOL_MAX="0") as running, running.client() as client:
        assert running.process_id is not None
        client.delete(f"/sandboxes/{_create(client)}")  # makes the golden image
        time.sleep(_SETTLE_SECONDS)
        server_before = resident_bytes(running.process_id)
        sandboxes = _create_all(client, options.count, result.failures)
        time.sleep(_SETTLE_SECONDS)
        before = running.machine_usage()
        time.sleep(_WATCH_SECONDS)
        after = running.machine_usage()
        server = resident_bytes(running.process_id) - server_before
        result.figures += [
            *_figures(before, after),
            Figure("the server's own", server / options.count / _MEBIBYTE, "MiB"),
        ]
        result.samples["memoryBytes"] = {name: usage.memory_bytes for name, usage in after.items()}
        for sandbox in sandboxes:
            client.delete(f"/sandboxes/{sandbox}")
    return result


def _figures(before: Mapping[str, GroupUsage], after: Mapping[str, GroupUsage]) -> list[Figure]:
    memory = Distribution.of([usage.memory_bytes / _MEBIBYTE for usage in after.values()])
    both = [name for name in after if name in before]
    share = Distribution.of(
        [100 * (after[name].cpu_seconds - before[name].cpu_seconds) / _WATCH_SECONDS for name in both]
    )
    return [
        Figure("memory of an idle machine: p50", memory.p50, "MiB", _MEMORY),
        Figure("memory of an idle machine: p95", memory.p95, "MiB"),
        Figure("processor of an idle machine: p50", share.p50, "% of a core"),
        Figure("processor of an idle machine: most", share.most, "% of a core"),
    ]


def _create(client: httpx.Client) -> str:
    return client.post("/sandboxes", json={}).raise_for_status().json()["sandboxID"]


def _create_all(client: httpx.Client, count: int, failures: list[str]) -> list[str]:
    made: list[str] = []
    for _ in range(count):
        try:
            made.append(_create(client))
        except httpx.HTTPError as error:
            failures.append(repr(error))
    return made
