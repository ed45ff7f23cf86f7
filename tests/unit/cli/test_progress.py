"""How far work is: something that moves for who watches a terminal, lines for everybody else."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from opencomputer.cli.output import Output
from opencomputer.cli.progress import Steps
from tests.support.fake_node import FakeNode
from tests.unit.cli.conftest import Oc
from tests.unit.cli.process import OnTerminal, finish, start

MANIFEST = {"base": "base", "steps": [{"type": "run", "args": {"commands": ["true"]}}] * 2}
HIDE_CURSOR = b"\x1b[?25l"


@pytest.fixture(scope="module")
def building() -> Iterator[FakeNode]:
    """A node that builds in one step, and says so in a line."""
    with FakeNode() as node:
        node.build_log = ["Step 1/2 (run): \x1b[31mtrue"]
        yield node


@pytest.fixture
def recipe(tmp_path: Path) -> str:
    file = tmp_path / "image.json"
    file.write_text(json.dumps(MANIFEST))
    return str(file)


def test_a_build_on_a_terminal_has_a_bar_and_its_lines_stay(building: FakeNode, recipe: str) -> None:
    with OnTerminal(building, "image", "build", recipe, "--name", "tools") as terminal:
        assert terminal.wait() == 0
        seen = terminal.seen
    assert b"Step 1/2 (run):  [31mtrue" in seen
    assert b"building tools" in seen
    assert HIDE_CURSOR in seen
    # The bar is gone at the end, and the terminal as it was.
    assert seen.index(b"\x1b[?25h") > seen.rindex(b"building tools")


def test_a_bar_without_colours_has_none(building: FakeNode, recipe: str) -> None:
    with OnTerminal(building, "image", "build", recipe, "--no-color") as terminal:
        assert terminal.wait() == 0
        assert b"building the image" in terminal.seen
        assert not re.search(rb"\x1b\[[0-9;]*[1-9][0-9;]*m", terminal.seen)


def test_elsewhere_there_are_lines_and_the_result_alone(building: FakeNode, recipe: str) -> None:
    code, out, err = finish(start(building, "image", "build", recipe))
    assert (code, err) == (0, b"Step 1/2 (run):  [31mtrue\n")
    assert out.startswith("✓ image".encode())
    assert not {HIDE_CURSOR, b"\x1b"} & {out[:1], err[:1]}


def test_quiet_is_silent(oc: Oc, node: FakeNode, recipe: str) -> None:
    node.build_log = ["Step 1/2 (run): true"]
    outcome = oc("snapshot", "create", "tools", recipe, "--quiet")
    assert (outcome.stderr, outcome.stdout.count("\n")) == ("", 1)


def test_steps_only_go_forward(capsys: pytest.CaptureFixture[str]) -> None:
    with Steps(Output(), "building", total=3) as progress:
        for number in (1, 2, 1, 0):
            progress.step(number)
        progress.now("the last one")
        progress.line("a line")
    assert (capsys.readouterr().err, progress.begun) == ("a line\n", 2)
