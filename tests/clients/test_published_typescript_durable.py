"""The published TypeScript client of durable sessions, unmodified, against a real node (appendix A).

Its agents follow scripts instead of a model: what is tested is the contract.
"""

from __future__ import annotations

import os
from collections.abc import Generator

import pytest

from tests.clients.areas import AreaRuns, Check, checks_in
from tests.clients.environments import NEWEST_NODE, PUBLISHED, node, node_modules
from tests.support.server import ServerProcess, running_server

pytestmark = [pytest.mark.machines, pytest.mark.timeout(600)]

CHECKS = checks_in(PUBLISHED / "durable")
_PARTS = {
    "agents": "create get update list deploy",
    "deployments": "create list get",
    "revisions": "list get activate",
    "activations": "list",
    "skills": "get put delete",
    "sessions": "create get list",
    "session": "refresh result turns turn cancel archive mintClientToken listSources events listEvents event "
    "eventContent messages steer",
    "destinations": "create list get update delete",
    "deliveries": "list get redeliver",
    "schedules": "create list get update fire runs delete",
    "credentials": "create list rotate setDefault delete",
}
SERVED = {f"{part}.{method}" for part, methods in _PARTS.items() for method in methods.split()}
HELPERS = {"OpenComputer", "connectSession", "verifyWebhook"}
NEWER = {"hooks"}
"""What only later clients have, and is asked for without one."""
LATER = {
    "deploymentSource",
    "repository",
    "repos",
    "github",
    "slack",
    "session.watches",
    "repositoryAccess",
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Generator[ServerProcess]:
    """A node that sends webhooks also to this machine."""
    folder = tmp_path_factory.mktemp("node")
    with running_server(folder, OPENCOMPUTER_ALLOW_PRIVATE_WEBHOOKS="1") as running:
        yield running


@pytest.fixture(scope="module")
def runs(server: ServerProcess) -> Generator[AreaRuns]:
    environment = {
        "PATH": os.environ["PATH"],
        "NODE_MODULES": str(node_modules()),
        "OPENCOMPUTER_API_URL": server.url,
        "OPENCOMPUTER_API_KEY": server.api_key,
    }
    with AreaRuns([str(node(NEWEST_NODE))], environment, CHECKS) as started:
        yield started


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.id)
def test_published_client(runs: AreaRuns, check: Check) -> None:
    """The name of the check says what must hold; the script holds the client's side of it."""
    problem = runs.problem(check)
    assert not problem, problem


def test_every_row_of_the_published_client_is_exercised() -> None:
    """What this server has must work, what it does not have must say so."""
    assert {method for check in CHECKS for method in check.methods} == SERVED | HELPERS | NEWER | LATER
