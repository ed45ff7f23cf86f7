"""Upload and download of one large file: bytes a second, and what it does to the server's memory."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass

import httpx

from bench.node import Node, Place, node_at
from bench.processes import PeakMemory
from bench.report import Result
from bench.samples import Figure, Target

_MEGABYTE = 1_000_000
_CHUNK_BYTES = 1 << 20
_PATH = "/home/sandbox/bench-file"
_RATE = Target(200, at_least=True)
_GROWTH = Target(64)

Transfer = Callable[[httpx.Client, str, int], None]


@dataclass(frozen=True)
class FilesOptions:
    mebibytes: int = 1024
    rounds: int = 3
    place: Place | None = None


def measure(options: FilesOptions) -> Result:
    result = Result("files", {"mebibytes": options.mebibytes, "rounds": options.rounds})
    rates: dict[str, list[float]] = {"upload": [], "download": []}
    growths: dict[str, list[float]] = {"upload": [], "download": []}
    ours = options.place is None
    with node_at(options.place) as running, running.client() as client:
        root = f"/sandboxes/{client.post('/sandboxes', json={}).raise_for_status().json()['sandboxID']}"
        try:
            for _ in range(options.rounds):
                for name, transfer in (("upload", _upload), ("download", _download)):
                    rate, growth = _timed(running, client, root, options.mebibytes, transfer)
                    rates[name].append(rate)
                    growths[name].append(growth)
        except (httpx.HTTPError, AssertionError) as error:
            result.failures.append(repr(error))
        finally:
            client.delete(root)
    for name in rates:
        result.samples[name] = [
            {"megabytesPerSecond": rate, "growthMiB": growth}
            for rate, growth in zip(rates[name], growths[name], strict=True)
        ]
        if rates[name]:
            # The best round says what the server can do; the others what the machine let it do.
            result.figures.append(
                Figure(f"{name}: best of {options.rounds}", max(rates[name]), "MB/s", _RATE)
            )
            result.figures.append(Figure(f"{name}: worst of {options.rounds}", min(rates[name]), "MB/s"))
            if ours:
                growth = max(growths[name])
                result.figures.append(Figure(f"{name}: server memory grew by", growth, "MiB", _GROWTH))
    return result


def _timed(
    running: Node, client: httpx.Client, root: str, mebibytes: int, transfer: Transfer
) -> tuple[float, float]:
    memory = None if running.process_id is None else PeakMemory(running.process_id)
    with memory or nullcontext():
        began = time.perf_counter()
        transfer(client, root, mebibytes)
        seconds = time.perf_counter() - began
    growth = 0 if memory is None else memory.growth
    return mebibytes * (1 << 20) / _MEGABYTE / seconds, growth / (1 << 20)


def _upload(client: httpx.Client, root: str, mebibytes: int) -> None:
    def chunks() -> Iterator[bytes]:
        chunk = bytes(range(256)) * (_CHUNK_BYTES // 256)
        for _ in range(mebibytes):
            yield chunk

    headers = {"Content-Length": str(mebibytes * _CHUNK_BYTES)}
    url = f"{root}/files"
    client.put(url, params={"path": _PATH}, content=chunks(), headers=headers).raise_for_status()


def _download(client: httpx.Client, root: str, mebibytes: int) -> None:
    received = 0
    with client.stream("GET", f"{root}/files", params={"path": _PATH}) as answer:
        answer.raise_for_status()
        for piece in answer.iter_raw(_CHUNK_BYTES):
            received += len(piece)
    assert received == mebibytes * _CHUNK_BYTES, f"received {received} bytes"
