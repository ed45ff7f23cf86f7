"""What one idle machine adds to the host: memory, and processor time once it is frozen."""

from __future__ import annotations

import time
from dataclasses import dataclass

import httpx

from bench.node import Node, node_at
from bench.processes import mentioning, processor_seconds, proportional_bytes, resident_bytes
from bench.report import Result
from bench.samples import Figure, Target

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
        server_before, available_before = resident_bytes(running.process_id), _available_bytes()
        others = set(_machine_processes(running))
        sandboxes = _create_all(client, options.count, result.failures)
        time.sleep(_SETTLE_SECONDS)
        processes = sorted(set(_machine_processes(running)) - others)
        made = max(len(sandboxes), 1)
        used_before = processor_seconds(processes)
        time.sleep(_WATCH_SECONDS)
        share = 100 * (processor_seconds(processes) - used_before) / _WATCH_SECONDS
        server = resident_bytes(running.process_id) - server_before
        memory = proportional_bytes(processes)
        host = available_before - _available_bytes()
        result.figures += [
            Figure("memory of a machine's processes", memory / made / _MEBIBYTE, "MiB", _MEMORY),
            Figure("memory of the server for it", server / made / _MEBIBYTE, "MiB"),
            Figure("less available on the host for it", host / made / _MEBIBYTE, "MiB"),
            Figure("processor of one idle machine", share / made, "% of a core"),
            Figure("processes of a machine", len(processes) / made, ""),
        ]
        result.samples["machineBytes"] = [proportional_bytes([process]) for process in processes]
        for sandbox in sandboxes:
            client.delete(f"/sandboxes/{sandbox}")
    return result


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


def _machine_processes(running: Node) -> list[int]:
    """The runtime names the node's folder in the command line of each of its processes."""
    assert running.data is not None
    server = running.process_id
    return [found for found in mentioning(str(running.data)) if found != server]


def _available_bytes() -> int:
    with open("/proc/meminfo") as lines:
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
