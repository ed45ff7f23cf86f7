"""The published TypeScript SDK, unmodified, against a real node (appendix B)."""

from __future__ import annotations

import os
from collections.abc import Generator

import pytest

from tests.clients.areas import AreaRuns, Check, checks_in
from tests.clients.environments import OLDEST_NODE, PUBLISHED, node, node_modules
from tests.support.server import ServerProcess

pytestmark = [pytest.mark.machines, pytest.mark.timeout(600)]

CHECKS = checks_in(PUBLISHED / "typescript")
SERVED = {f"B{row}" for row in (*range(1, 11), *range(12, 21), 22, 24, *range(25, 30))}
LATER = {f"B{row}" for row in (11, 21)}


@pytest.fixture(scope="module")
def runs(server: ServerProcess) -> Generator[AreaRuns]:
    environment = {
        "PATH": os.environ["PATH"],
        "NODE_MODULES": str(node_modules()),
        "OPENCOMPUTER_API_URL": server.url,
        "OPENCOMPUTER_API_KEY": server.api_key,
    }
    with AreaRuns([str(node(OLDEST_NODE))], environment, CHECKS) as started:
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
