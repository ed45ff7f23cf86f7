"""Our adapters for agent frameworks, each with its framework's own suite and ours, against one real node.

The suites wait more than they compute: they run side by side, each with sandboxes of its own.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.clients.environments import PUBLISHED, install_checkout, packages_of, python_of
from tests.support.server import ServerProcess

pytestmark = [pytest.mark.machines, pytest.mark.timeout(600)]

CHECKOUT = Path(__file__).resolve().parents[2]
FOLDER = PUBLISHED / "adapters"


@dataclass(frozen=True)
class Suite:
    """What one process runs, and how many checks there are at least: none may be lost unnoticed."""

    arguments: tuple[str, ...]
    fewest: int
    before: str | None = None


SUITES: Mapping[str, Suite] = {
    "inspect_ai": Suite(("inspect_ai_self_check.py", "inspect_ai_provider.py"), 44 + 12),
    "langchain": Suite(("langchain_suite.py", "langchain_backend.py"), 79 + 13),
    "langchain_0_6": Suite(("--before-0-7", "langchain_suite.py"), 7, before="deepagents-0.6"),
    "openai_agents": Suite(("openai_agents_session.py", "openai_agents_run.py"), 16 + 1),
}


@dataclass(frozen=True)
class Outcome:
    """What pytest reported. `passed` names the checks; `others` says what became of the rest."""

    passed: list[str]
    others: dict[str, str]
    said: str


@pytest.fixture(scope="module")
def outcomes(server: ServerProcess, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcome]:
    package = tmp_path_factory.mktemp("package") / "site"
    install_checkout(CHECKOUT, "adapters", package)

    def run(name: str) -> Outcome:
        return _run(SUITES[name], server, package, folders[name])

    folders = {name: tmp_path_factory.mktemp(name) for name in SUITES}
    with ThreadPoolExecutor(len(SUITES)) as pool:
        return dict(zip(SUITES, pool.map(run, SUITES), strict=True))


def _run(suite: Suite, server: ServerProcess, package: Path, folder: Path) -> Outcome:
    report = folder / "report.xml"
    first = [str(packages_of(suite.before))] if suite.before else []
    options = ["-p", "no:cacheprovider", f"--confcutdir={FOLDER}", f"--basetemp={folder / 'temporary'}"]
    ran = subprocess.run(
        [str(python_of("adapters")), "-m", "pytest", *options, f"--junitxml={report}", *suite.arguments],
        cwd=FOLDER,
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "PYTHONPATH": os.pathsep.join([*first, str(package)]),
            "OPENCOMPUTER_API_URL": server.url,
            "OPENCOMPUTER_API_KEY": server.api_key,
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=500,
    )
    return _read(report, ran.stdout + ran.stderr)


def _read(report: Path, said: str) -> Outcome:
    assert report.exists(), said
    passed: list[str] = []
    others: dict[str, str] = {}
    for case in ElementTree.parse(report).iter("testcase"):
        name = case.get("name", "")
        problems = [child for child in case if child.tag in ("failure", "error", "skipped")]
        if problems:
            others[name] = f"{problems[0].tag}: {problems[0].get('message')}"
        else:
            passed.append(name)
    return Outcome(passed, others, said)


@pytest.mark.parametrize("name", SUITES)
def test_every_check_passes_and_none_is_left_out(name: str, outcomes: dict[str, Outcome]) -> None:
    """There is no list of known failures."""
    assert not outcomes[name].others, outcomes[name].said[-6000:]


@pytest.mark.parametrize("name", SUITES)
def test_the_checks_were_really_run(name: str, outcomes: dict[str, Outcome]) -> None:
    assert len(outcomes[name].passed) + len(outcomes[name].others) >= SUITES[name].fewest
