"""Processes of a machine, over the real link to a real guest."""

from __future__ import annotations

import pytest

from opencomputer.server.machines.machine import LinkedMachine
from tests.support.processes import run, shell

pytestmark = pytest.mark.anyio


async def test_a_command_gives_its_output_and_its_exit_code(machine: LinkedMachine) -> None:
    finished = await run(machine, shell("echo out; echo err >&2; exit 3"))
    assert (finished.stdout, finished.stderr, finished.exit.code) == (b"out\n", b"err\n", 3)
