"""Inspect AI's own check of sandbox providers, through a thin adapter over our SDK, against a real node."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.clients.environments import PUBLISHED, python_of
from tests.support.server import ServerProcess

pytestmark = [pytest.mark.machines, pytest.mark.timeout(600)]

FOLDER = PUBLISHED / "inspect_ai_self_check"
SOURCE = Path(__file__).resolve().parents[2] / "src"
FEWEST_CHECKS = 44


@dataclass(frozen=True)
class Outcome:
    """What pytest reported. `passed` names the checks; `others` says what became of the rest."""

    passed: list[str]
    others: dict[str, str]
    said: str


@pytest.fixture(scope="module")
def outcome(server: ServerProcess, tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    report = tmp_path_factory.mktemp("inspect") / "report.xml"
    options = ["-p", "no:cacheprovider", "-c", "/dev/null", f"--rootdir={FOLDER}", f"--confcutdir={FOLDER}"]
    ran = subprocess.run(
        [str(python_of("inspect-ai")), "-m", "pytest", *options, f"--junitxml={report}", "self_check.py"],
        cwd=FOLDER,
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(report.parent),
            "PYTHONPATH": str(SOURCE),
            "PYTHONDONTWRITEBYTECODE": "1",
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


def test_every_check_passes_and_none_is_left_out(outcome: Outcome) -> None:
    """There is no list of known failures."""
    assert not outcome.others, outcome.said[-6000:]


def test_the_checks_were_really_run(outcome: Outcome) -> None:
    """As many as this version of Inspect has."""
    assert len(outcome.passed) + len(outcome.others) >= FEWEST_CHECKS
