"""Fork, checkpoint, hibernate, wake: what they take, and how that grows with what is saved."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import count

import httpx

from bench.node import Place, node_at
from bench.report import Result
from bench.samples import Distribution, Figure, Target
from bench.saved import Load, Sandbox, await_ready, create, loaded

_USUAL = Load()
GROWTH = (
    *(Load(touched_mebibytes=size) for size in (16, 256, 1024)),
    *(Load(written_mebibytes=size) for size in (1, 64, 512, 2048)),
    *(Load(files=number) for number in (1_000, 20_000)),
)
_GROWTH_ROUNDS = 3

Sample = dict[str, float]
Step = Callable[[Sandbox], Sample]


@dataclass(frozen=True)
class StateOptions:
    """`growth`: also measure how it grows with memory touched, bytes written and the number of files."""

    rounds: int = 20
    growth: bool = False
    place: Place | None = None


@dataclass(frozen=True)
class _Bench:
    name: str
    step: Step
    targets: Mapping[str, tuple[Target | None, Target | None]]


_names = count()


def _fork(sandbox: Sandbox) -> Sample:
    began = time.perf_counter()
    made = sandbox.post("fork", {"count": 1})[0]
    answered = time.perf_counter()
    fork = Sandbox(sandbox.client, made["sandboxID"])
    try:
        fork.run("true")
        ended = time.perf_counter()
        if not made["memoryRestored"]:
            raise AssertionError("the fork has no memory")
        fork.run("pgrep -f holder.py")
    finally:
        sandbox.client.delete(fork.path)
    return {"fork → first exec": 1000 * (ended - began), "fork": 1000 * (answered - began)}


def _checkpoint(sandbox: Sandbox) -> Sample:
    sandbox.forget_gap()
    began = time.perf_counter()
    made = sandbox.post("checkpoints", {"name": f"bench-{next(_names)}"})
    answered = time.perf_counter()
    await_ready(sandbox, made["id"])
    ended = time.perf_counter()
    sample = {
        "pause of the source": sandbox.longest_gap_milliseconds(),
        "checkpoint → answer": 1000 * (answered - began),
        "checkpoint → ready": 1000 * (ended - began),
    }
    sandbox.client.delete(f"{sandbox.path}/checkpoints/{made['id']}").raise_for_status()
    return sample


def _hibernate(sandbox: Sandbox) -> Sample:
    began = time.perf_counter()
    sandbox.post("hibernate")
    asleep = time.perf_counter()
    sandbox.post("wake")
    awake = time.perf_counter()
    sandbox.run("pgrep -f holder.py")
    return {"hibernate": 1000 * (asleep - began), "wake": 1000 * (awake - asleep)}


_BENCHES = {
    "fork": _Bench("fork", _fork, {"fork → first exec": (Target(250), Target(400))}),
    "checkpoint": _Bench("checkpoint", _checkpoint, {"pause of the source": (Target(100), Target(200))}),
    "hibernate": _Bench(
        "hibernate", _hibernate, {"hibernate": (Target(300), None), "wake": (Target(250), None)}
    ),
}


def measure(name: str, options: StateOptions) -> Result:
    """Run `fork`, `checkpoint` or `hibernate`."""
    bench = _BENCHES[name]
    result = Result(name, {"rounds": options.rounds, "growth": options.growth})
    with node_at(options.place) as running, running.client() as client:
        running.await_full_pool()
        plain = _plain_creates(client, options.rounds)
        result.samples["plain create → first exec"] = plain
        result.figures.append(Figure("plain create → first exec p50", Distribution.of(plain).p50, "ms"))
        _measure_load(result, bench, client, _USUAL, options.rounds)
        for load in GROWTH if options.growth else ():
            _measure_load(result, bench, client, load, _GROWTH_ROUNDS)
        for key in bench.targets:
            _add_ratio(result, key, plain)
    return result


def _plain_creates(client: httpx.Client, rounds: int) -> list[float]:
    samples: list[float] = []
    for _ in range(rounds):
        began = time.perf_counter()
        sandbox = create(client)
        sandbox.run("true")
        samples.append(1000 * (time.perf_counter() - began))
        client.delete(sandbox.path)
    return samples


def _measure_load(result: Result, bench: _Bench, client: httpx.Client, load: Load, rounds: int) -> None:
    samples: list[Sample] = []
    try:
        with loaded(client, load) as sandbox:
            for _ in range(rounds):
                samples.append(bench.step(sandbox))
    except (httpx.HTTPError, AssertionError) as error:
        result.failures.append(f"{load.describe()}: {error!r}")
    result.samples[load.describe()] = [dict(sample) for sample in samples]
    for key in samples[0] if samples else ():
        found = Distribution.of([sample[key] for sample in samples])
        middle, late = bench.targets.get(key, (None, None)) if load == _USUAL else (None, None)
        label = f"{key}, {load.describe()}"
        result.figures.append(Figure(f"{label} p50", found.p50, "ms", middle))
        if load == _USUAL:
            result.figures.append(Figure(f"{label} p95", found.p95, "ms", late))


def _add_ratio(result: Result, key: str, plain: list[float]) -> None:
    usual = next((each for each in result.figures if each.name == f"{key}, {_USUAL.describe()} p50"), None)
    if usual is not None and plain:
        ratio = usual.value / Distribution.of(plain).p50
        result.figures.append(Figure(f"{key}: times a plain create", ratio, "×"))
