"""Areas of checks: scripts that run a published client and print what became of each of their checks."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

AREA_SECONDS = 300
_AT_ONCE = 4
_PYTHON_CHECK = re.compile(r"^@covers\((?P<methods>[^)]*)\)\nasync def (?P<name>\w+)\(", re.MULTILINE)
_NODE_CHECK = re.compile(r"^check\(\s*\"(?P<name>[^\"]+)\",\s*\[(?P<methods>[^\]]*)\]", re.MULTILINE)


@dataclass(frozen=True)
class Check:
    """One check of a script, found without running it. `methods` are rows of the contract's appendix."""

    script: Path
    name: str
    methods: frozenset[str]

    @property
    def id(self) -> str:
        return f"{self.script.stem}-{self.name.replace(' ', '_')}"


def checks_in(folder: Path) -> list[Check]:
    """The checks of every script in a folder, in the order they run."""
    found: list[Check] = []
    for script in sorted([*folder.glob("*.py"), *folder.glob("*.mjs")]):
        pattern = _PYTHON_CHECK if script.suffix == ".py" else _NODE_CHECK
        for match in pattern.finditer(script.read_text()):
            found.append(Check(script, match["name"], frozenset(re.findall(r"[\w.]+", match["methods"]))))
    return found


class AreaRuns:
    """Runs each script once, a few at a time, and tells what it said about one check."""

    def __init__(
        self, program: Sequence[str], environment: Mapping[str, str], checks: Sequence[Check]
    ) -> None:
        self._program = program
        self._environment = environment
        self._pool = ThreadPoolExecutor(_AT_ONCE)
        scripts = {check.script for check in checks}
        self._runs = {script: self._pool.submit(self._run, script) for script in sorted(scripts)}

    def __enter__(self) -> AreaRuns:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.shutdown(cancel_futures=True)

    def problem(self, check: Check) -> str:
        """What went wrong with a check; empty when it passed."""
        run: Future[tuple[dict[str, str], str]] = self._runs[check.script]
        problems, said = run.result()
        return problems.get(check.name, f"the script ended before this check; it said:\n{said}")

    def _run(self, script: Path) -> tuple[dict[str, str], str]:
        try:
            ran = subprocess.run(
                [*self._program, str(script)],
                env=dict(self._environment),
                cwd="/",
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=False,
                timeout=AREA_SECONDS,
            )
            stdout, stderr = ran.stdout, ran.stderr
        except subprocess.TimeoutExpired as late:
            stdout = late.stdout.decode() if isinstance(late.stdout, bytes) else ""
            stderr = f"it took longer than {AREA_SECONDS} seconds"
        reports = [json.loads(line) for line in stdout.splitlines() if line.startswith("{")]
        return {report["name"]: report["problem"] for report in reports}, stderr[-3000:]
