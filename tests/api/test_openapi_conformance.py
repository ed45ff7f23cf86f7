"""The node answers as its OpenAPI documents say: a little of what `scripts/fuzz_api.py` does for longer.

The requests are the same in each run, so that what fails, fails for its author.
"""

from __future__ import annotations

import pytest
from anyio import run_process

from scripts.fuzz_api import DOCUMENTS, Target, command, environment
from tests.support.node import Api

pytestmark = pytest.mark.anyio

_OPTIONS = ("--phases=fuzzing", "--max-examples=1", "--generation-deterministic")


@pytest.mark.parametrize("document", DOCUMENTS)
async def test_answers_are_as_documented(api: Api, sandbox: str, document: str) -> None:
    target = Target(api.url, api.key, {"api": {"/{sandbox_id}": sandbox}})
    costly = ["/sandboxes$", "/(fork|hibernate|wake)$"]
    asking = command(target, document, _OPTIONS, without=costly)
    done = await run_process(asking, env=environment(target, document), check=False)
    assert done.returncode == 0, done.stdout.decode()[-6000:]
