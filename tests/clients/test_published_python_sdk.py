"""The published Python SDK, unmodified, against a real node (the contract's appendix A)."""

from __future__ import annotations

import os
from collections.abc import Generator

import pytest

from tests.clients.areas import AreaRuns, Check, checks_in
from tests.clients.environments import PUBLISHED, python_of
from tests.support.server import ServerProcess

pytestmark = [pytest.mark.machines, pytest.mark.timeout(600)]

CHECKS = checks_in(PUBLISHED / "python")
SERVED = {f"A{row}" for row in (*range(1, 18), *range(20, 32), 33, 35, *range(36, 40))}
LATER = {f"A{row}" for row in (18, 19, 32)}


@pytest.fixture(scope="module")
def runs(server: ServerProcess) -> Generator[AreaRuns]:
    environment = {
        "PATH": os.environ["PATH"],
        "OPENCOMPUTER_API_URL": server.url,
        "OPENCOMPUTER_API_KEY": server.api_key,
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    with AreaRuns([str(python_of("python-sdk"))], environment, CHECKS) as started:
        yield started


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.id)
def test_published_sdk(runs: AreaRuns, check: Check) -> None:
    """The name of the check says what must hold; the script holds the client's side of it."""
    problem = runs.problem(check)
    assert not problem, problem


def test_every_method_of_the_published_sdk_is_exercised() -> None:
    """Served ones must work, later ones must refuse; only the local ones and the browser API stay out."""
    covered = {method for check in CHECKS for method in check.methods}
    assert covered == SERVED | LATER
