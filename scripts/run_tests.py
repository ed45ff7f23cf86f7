"""`make test`: the whole suite in two lanes side by side, each in the order that a plain pytest would take.

Most tests wait for something more than they compute, so that one after the other leaves a processor idle.
Options are passed on to pytest in both lanes: `scripts/run_tests.py --durations=40`.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
OUTPUT = REPOSITORY / ".run"
MACHINES = ("tests/acceptance", "tests/conformance", "tests/machines")
"""Folders of the first lane. All that is not named here is in the second."""
_NO_TESTS = 5


@dataclass(frozen=True)
class Lane:
    name: str
    arguments: tuple[str, ...]


def lanes(options: Sequence[str]) -> tuple[Lane, ...]:
    """What each lane runs: together, everything once."""
    without = tuple(f"--ignore={folder}" for folder in MACHINES)
    return (
        Lane("machines", (*MACHINES, *options)),
        Lane("everything else", ("tests", *without, *options)),
    )


def run(side_by_side: Iterable[tuple[str, Sequence[str]]], folder: Path) -> int:
    """Run commands at the same time, each with a name. The first one's output is shown as it comes, that of
    the others when they are done. Returns 1 if one of them failed."""
    folder.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    running: list[tuple[str, subprocess.Popen[bytes], Path | None]] = []
    for number, (name, command) in enumerate(side_by_side):
        said = None if number == 0 else folder / f"tests-{number}.txt"
        if said is None:
            process = subprocess.Popen(command, cwd=REPOSITORY)
        else:
            with said.open("wb") as output:
                process = subprocess.Popen(command, cwd=REPOSITORY, stdout=output, stderr=subprocess.STDOUT)
        running.append((name, process, said))
    results: list[str] = []
    failed = False
    for name, process, said in running:
        code = _ended(process)
        failed = failed or code not in (0, _NO_TESTS)
        if said is not None:
            print(f"\n== lane: {name} ==\n{said.read_text(errors='replace')}", flush=True)
        results.append(f"lane {name}: {'passed' if code in (0, _NO_TESTS) else f'failed ({code})'}")
    print(f"\n{'; '.join(results)}; {time.monotonic() - began:.0f} s in all", flush=True)
    return int(failed)


def _ended(process: subprocess.Popen[bytes]) -> int:
    """An interrupt has reached the lanes as well: they clean up, and are waited for."""
    while True:
        try:
            return process.wait()
        except KeyboardInterrupt:
            continue


def main() -> int:
    commands = [
        (
            lane.name,
            [sys.executable, "-m", "pytest", "-o", f"cache_dir=.pytest_cache/{number}", *lane.arguments],
        )
        for number, lane in enumerate(lanes(sys.argv[1:]))
    ]
    return run(commands, OUTPUT)


if __name__ == "__main__":
    sys.exit(main())
