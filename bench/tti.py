"""Create to first `node -v`, through the stock ComputeSDK provider: in sequence, staggered, all at once."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from bench.node import Node, Place, node_at
from bench.report import Json, Result
from bench.samples import Distribution, Figure, Target
from tests.clients.environments import NODE_VERSIONS, node, node_modules

MODES = ("sequential", "staggered", "burst")
_SCRIPT = Path(__file__).with_name("tti.mjs")
_STAGGER_MILLISECONDS = 200
_MODE_SECONDS = 900
_TARGETS = {"p50": Target(60), "p95": Target(120)}


@dataclass(frozen=True)
class TtiOptions:
    """How many sandboxes each mode makes, and which modes. None for `place` measures nodes of our own."""

    count: int = 100
    modes: tuple[str, ...] = MODES
    place: Place | None = None


def measure(options: TtiOptions) -> Result:
    result = Result("tti", {"count": options.count, "staggerMilliseconds": _STAGGER_MILLISECONDS})
    variants: dict[str, dict[str, str]] = {"": {}}
    if options.place is None:
        variants = {"with pool": {}, "without pool": {"OPENCOMPUTER_POOL_MAX": "0"}}
    for name, settings in variants.items():
        with node_at(options.place, **settings) as running:
            for mode in options.modes:
                label = f"{mode} {name}".strip()
                if "OPENCOMPUTER_POOL_MAX" not in settings and options.place is None:
                    result.notes.append(f"{label}: {running.await_full_pool()} machines ready at the start")
                _measure_mode(result, running, mode, options.count, label)
    return result


def _measure_mode(result: Result, running: Node, mode: str, count: int, label: str) -> None:
    lines = _run(running, mode, count)
    samples = [line for line in lines if "startedMs" in line]
    result.samples[label] = samples
    failed = [str(line["error"]) for line in lines if line.get("error")]
    result.failures += [f"{label}: {text}" for text in failed]
    good = [line for line in samples if not line.get("error")]
    result.figures.append(Figure(f"{label}: succeeded", 100 * len(good) / count, "%", Target(100, True)))
    for part in ("total", "create", "exec"):
        found = Distribution.of([_number(line[f"{part}Ms"]) for line in good])
        targets = _TARGETS if part == "total" and label.startswith("sequential") else {}
        result.figures += [
            Figure(f"{label}: {part} p50", found.p50, "ms", targets.get("p50")),
            Figure(f"{label}: {part} p95", found.p95, "ms", targets.get("p95")),
        ]
    wall = next((_number(line["wallMs"]) for line in lines if "wallMs" in line), 0.0)
    result.figures.append(Figure(f"{label}: wall", wall / 1000, "s"))


def _run(running: Node, mode: str, count: int) -> list[dict[str, Json]]:
    ran = subprocess.run(
        [str(node(NODE_VERSIONS[-1])), str(_SCRIPT), mode, str(count), str(_STAGGER_MILLISECONDS)],
        env={
            "PATH": os.environ["PATH"],
            "NODE_MODULES": str(node_modules()),
            "OPENCOMPUTER_API_URL": running.url,
            "OPENCOMPUTER_API_KEY": running.api_key,
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=_MODE_SECONDS,
    )
    lines: list[dict[str, Json]] = [json.loads(line) for line in ran.stdout.splitlines()]
    if ran.returncode != 0:
        lines.append({"error": f"the client ended with {ran.returncode}: {ran.stderr[-500:]}"})
    return lines


def _number(value: Json) -> float:
    assert isinstance(value, int | float)
    return float(value)
