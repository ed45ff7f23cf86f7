"""How long programs take to load the SDK, in terms of a Python that loads nothing."""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.report import Result
from bench.samples import Distribution, Figure, Target

_NOTHING = "an empty program"
_PROGRAMS: Mapping[str, Sequence[str]] = {
    _NOTHING: ("-c", "pass"),
    "import asyncio": ("-c", "import asyncio"),
    "import httpx": ("-c", "import httpx"),
    "import opencomputer": ("-c", "import opencomputer"),
    "from opencomputer import Sandbox": ("-c", "from opencomputer import Sandbox"),
    "from opencomputer.blocking import Sandbox": ("-c", "from opencomputer.blocking import Sandbox"),
    "oc --version": (str(Path(sys.executable).with_name("oc")), "--version"),
}
_TARGETS = {
    "import opencomputer": Target(2),
    "from opencomputer import Sandbox": Target(20),
    "from opencomputer.blocking import Sandbox": Target(25),
}


@dataclass(frozen=True)
class ImportsOptions:
    count: int = 20


@dataclass(frozen=True)
class Run:
    """One start: by the clock, and by what the processors did, which others cannot lengthen as much."""

    wall_milliseconds: float
    cpu_milliseconds: float


def measure(options: ImportsOptions) -> Result:
    """Every program in turn, again and again, so that what disturbs one disturbs all."""
    result = Result("imports", {"count": options.count, "python": sys.version.split()[0]})
    runs: dict[str, list[Run]] = {name: [] for name in _PROGRAMS}
    for _ in range(options.count):
        for name, arguments in _PROGRAMS.items():
            runs[name].append(_run([sys.executable, *arguments]))
    usual = {name: Distribution.of([run.cpu_milliseconds for run in each]).p50 for name, each in runs.items()}
    clock = {
        name: Distribution.of([run.wall_milliseconds for run in each]).p50 for name, each in runs.items()
    }
    for name in _PROGRAMS:
        result.figures.append(Figure(f"{name}, processor p50", usual[name], "ms"))
        times = usual[name] / usual[_NOTHING]
        if name != _NOTHING:
            result.figures.append(Figure(f"{name}, processor", times, "times", _TARGETS.get(name)))
            result.figures.append(Figure(f"{name}, clock", clock[name] / clock[_NOTHING], "times"))
    result.samples = {
        name: [[run.wall_milliseconds, run.cpu_milliseconds] for run in each] for name, each in runs.items()
    }
    return result


def _run(command: Sequence[str]) -> Run:
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    wall, after = time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Run(1000 * wall, 1000 * cpu)
