"""`oc` run in this process against a fake node."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from opencomputer.cli import clock
from opencomputer.cli.main import run
from opencomputer.cli.text import age
from tests.support.fake_node import FakeNode
from tests.support.fake_node.node import FakeSandbox

GOLDEN = Path(__file__).parents[2] / "golden" / "cli"


@dataclass(frozen=True)
class Outcome:
    """How one run of `oc` ended."""

    exit_code: int
    stdout: str
    stderr: str


Oc = Callable[..., Outcome]


@pytest.fixture
def node() -> Iterator[FakeNode]:
    with FakeNode() as node:
        yield node


@pytest.fixture
def clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """No settings of the person who runs the tests; returns the configuration file's path."""
    for name in ("OPENCOMPUTER_API_KEY", "OPENCOMPUTER_API_URL", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    config = tmp_path / "configuration" / "config.json"
    monkeypatch.setenv("OC_CONFIG", str(config))
    monkeypatch.setenv("OPENCOMPUTER_LOCAL_NODE_FILE", str(tmp_path / "no-local-node.json"))
    monkeypatch.setenv("COLUMNS", "100")
    return config


@pytest.fixture
def oc(
    node: FakeNode,
    clean_environment: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> Oc:
    """Run `oc` with these arguments against the fake node."""
    monkeypatch.setenv("OPENCOMPUTER_API_URL", node.url)
    monkeypatch.setenv("OPENCOMPUTER_API_KEY", node.api_key)

    def invoke(*arguments: str) -> Outcome:
        capfd.readouterr()
        code = run(arguments)
        captured = capfd.readouterr()
        return Outcome(code, captured.out, captured.err)

    return invoke


@pytest.fixture
def inside(node: FakeNode) -> FakeSandbox:
    """A running sandbox on the fake node, sb-00000001."""
    return node.add_sandbox()


@pytest.fixture
def golden(node: FakeNode) -> Callable[[str, str], None]:
    """Compare text with a file of tests/golden/cli; UPDATE_GOLDEN=1 writes the file instead."""

    def compare(name: str, text: str) -> None:
        stable = text.replace(node.url, "http://NODE")
        path = GOLDEN / f"{name}.txt"
        if os.environ.get("UPDATE_GOLDEN"):
            path.write_text(stable)
        assert stable == path.read_text()

    return compare


@pytest.fixture
def stopped_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """One hour, two minutes and three seconds after everything on the fake node began."""
    from datetime import UTC, datetime

    moment = datetime(2026, 1, 2, 4, 6, 8, tzinfo=UTC)
    monkeypatch.setattr(clock, "now", lambda: moment)
    assert age("2026-01-02T03:04:05Z", moment) == "1h2m3s"
