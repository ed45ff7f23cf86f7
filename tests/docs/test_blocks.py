"""Every block of code in the documentation does what its page says, on a real node."""

from __future__ import annotations

import ast
import asyncio
import subprocess
import threading
from collections.abc import Generator
from concurrent.futures import Future
from pathlib import Path

import pytest

from tests.docs import oc_server
from tests.docs.adaptations import ADAPTATIONS
from tests.docs.blocks import RUNNABLE, SHOWN, blocks, pages
from tests.docs.page_run import Adaptation, Node, PageRun
from tests.support.driver_harness import why_no_gvisor
from tests.support.server import running_server

_AT_A_TIME = 4
# Installers and services: they would reach beyond the page's own folder and node.
Results = dict[str, Future[None]]
RUNNING = [page for page in pages() if any(block.runs for block in blocks(page))]


@pytest.fixture(scope="module")
def runs(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Generator[dict[str, Future[None]]]:
    """All pages, started together on one node; each test waits for its own."""
    if missing := why_no_gvisor():
        pytest.skip(missing)
    folder = tmp_path_factory.mktemp("docs")
    asked = {item.nodeid.partition("[")[2].rstrip("]") for item in request.session.items}
    with (
        pytest.MonkeyPatch.context() as patch,
        running_server(folder / "node") as server,
        oc_server.serving(folder / "oc") as programs,
    ):
        patch.setenv("OPENCOMPUTER_API_URL", server.url)
        patch.setenv("OPENCOMPUTER_API_KEY", server.api_key)
        results: Results = {page: Future() for page in RUNNING if page in asked}
        node = Node(server.url, server.api_key, server.data, programs)
        thread = threading.Thread(target=lambda: asyncio.run(run_all(results, node, folder)))
        thread.start()
        yield results
        thread.join()


async def run_all(results: Results, node: Node, folder: Path) -> None:
    gate = asyncio.Semaphore(_AT_A_TIME)

    async def run(page: str) -> None:
        own = folder / page.replace("/", "-")
        own.mkdir()
        async with gate:
            try:
                adaptation = ADAPTATIONS.get(page, Adaptation())
                await PageRun(page, node, own, adaptation).run()
            except Exception as error:
                results[page].set_exception(error)
            else:
                results[page].set_result(None)

    async with asyncio.TaskGroup() as group:
        # The longest first: the others then fill what is left.
        for page in sorted(results, key=_length, reverse=True):
            group.create_task(run(page))


def _length(page: str) -> int:
    return sum(len(block.source) for block in blocks(page) if block.runs)


@pytest.mark.machines
@pytest.mark.timeout(480)
@pytest.mark.parametrize("page", RUNNING)
def test_every_block_does_what_its_page_says(runs: Results, page: str) -> None:
    problem = runs[page].exception(470)
    if problem is not None:
        pytest.fail(str(problem), pytrace=False)


@pytest.mark.parametrize("page", pages())
def test_blocks_that_are_not_run_say_why_and_can_be_read(page: str) -> None:
    for block in blocks(page):
        assert block.language in (*RUNNABLE, *SHOWN), f"{block.place}: nobody knows how to check this"
        if "norun" in block.options:
            assert block.options.get("reason"), f"{block.place}: why is it not run?"
        if block.language == "python":
            compile(block.source, block.place, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        if block.language == "sh":
            checked = subprocess.run(
                ["bash", "-n"], input=block.source, text=True, capture_output=True, check=False
            )
            assert checked.returncode == 0, f"{block.place}: {checked.stderr}"


@pytest.mark.parametrize("page", RUNNING)
def test_what_would_change_the_machine_of_the_tests_is_not_run(page: str) -> None:
    for block in blocks(page):
        if block.runs:
            assert not block.changes_the_machine, f"{block.place}: mark it `norun`"


def test_adaptations_are_of_pages_that_are_there() -> None:
    assert set(ADAPTATIONS) <= set(RUNNING)
