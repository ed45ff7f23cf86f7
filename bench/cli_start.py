"""How long `oc` and the SDK take to start, beside a Python that does nothing, in turns."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.report import Result
from bench.samples import Distribution, Figure, Target

_TO_HOLD = Target(150)
_EMPTY = "empty Python"


@dataclass(frozen=True)
class StartOptions:
    rounds: int = 20


def measure(options: StartOptions) -> Result:
    result = Result("cli_start", {"rounds": options.rounds})
    programs = _programs()
    taken: dict[str, list[float]] = {name: [] for name in programs}
    # The first round only fills the caches.
    for number in range(options.rounds + 1):
        for name, program in programs.items():
            milliseconds = _once(program)
            if number:
                taken[name].append(milliseconds)
    empty = Distribution.of(taken[_EMPTY]).p50
    for name, samples in taken.items():
        spread = Distribution.of(samples)
        target = _TO_HOLD if name in ("oc --version", "oc --help") else None
        result.figures += [
            Figure(f"{name}: p50", spread.p50, "ms", target),
            Figure(f"{name}: least", spread.least, "ms"),
        ]
        if name != _EMPTY:
            result.figures.append(Figure(f"{name}: p50 in empty starts", spread.p50 / empty, "×"))
        result.samples[name] = samples
    return result


def _programs() -> dict[str, Sequence[str]]:
    python, installed = sys.executable, Path(sys.executable).with_name("oc")
    oc = [str(installed)] if installed.exists() else [python, "-m", "opencomputer.cli"]
    return {
        _EMPTY: [python, "-c", "pass"],
        "import opencomputer": [python, "-c", "import opencomputer"],
        "from opencomputer import Sandbox": [python, "-c", "from opencomputer import Sandbox"],
        "oc --version": [*oc, "--version"],
        "oc --help": [*oc, "--help"],
        "oc keys --help": [*oc, "keys", "--help"],
    }


def _once(program: Sequence[str]) -> float:
    began = time.perf_counter()
    subprocess.run(program, stdout=subprocess.DEVNULL, check=True, env={"PATH": os.environ["PATH"]})
    return (time.perf_counter() - began) * 1000
