"""`make test`: the whole suite in lanes side by side, each in the order that a plain pytest would take.

Most tests wait for something more than they compute, so that one after the other leaves a processor idle.
Options are passed on to pytest in all lanes: `scripts/run_tests.py --durations=40`.
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
NODES = (
    "tests/acceptance",
    "tests/machines/test_egress_modes.py",
    "tests/machines/test_egress_proxy.py",
    "tests/machines/test_network.py",
)
"""Whole nodes, and all that builds a network around this host: its addresses are the same each time, so that
those tests would only wait for each other in two lanes."""
SESSIONS = (
    "tests/acceptance/test_claude_brain.py",
    "tests/acceptance/test_codex_brain.py",
    "tests/acceptance/test_durable_claude.py",
    "tests/acceptance/test_durable_sessions.py",
)
"""What of the acceptance has nodes and machines of its own, so that it may run in another lane."""
MACHINES = (*SESSIONS, "tests/clients", "tests/conformance", "tests/docs/test_blocks.py", "tests/machines")
"""Sessions and clients of whole nodes, and machines by themselves."""
API = ("tests/api",)
_NO_TESTS = 5


@dataclass(frozen=True)
class Lane:
    """A patient one leaves the processors to those that wait for real machines."""

    name: str
    arguments: tuple[str, ...]
    patient: bool = False

    @property
    def command(self) -> list[str]:
        cache = f"cache_dir=.pytest_cache/{self.name.replace(' ', '-')}"
        niceness = ["nice", "-n", "10"] if self.patient else []
        return [*niceness, sys.executable, "-m", "pytest", "-o", cache, *self.arguments]


def lanes(options: Sequence[str]) -> tuple[Lane, ...]:
    """What each lane runs: together, everything once."""
    files_of_nodes = [each for each in NODES if each.endswith(".py")]
    return (
        Lane("nodes", (*NODES, *_without(*SESSIONS), *options)),
        Lane("machines", (*MACHINES, *_without(*files_of_nodes), *options)),
        Lane("api", (*API, *options)),
        Lane("everything else", ("tests", *_without(*NODES, *MACHINES, *API), *options), patient=True),
    )


def _without(*places: str) -> list[str]:
    return [f"--ignore={place}" for place in places]


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
    commands = [(lane.name, lane.command) for lane in lanes(sys.argv[1:])]
    return run(commands, OUTPUT)


if __name__ == "__main__":
    sys.exit(main())
