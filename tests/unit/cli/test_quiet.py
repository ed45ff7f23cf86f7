"""`--quiet` prints ids alone, and leaves out notes."""

from __future__ import annotations

import json

import pytest

from tests.support.fake_node import FakeNode
from tests.support.fake_node.node import FakeSandbox
from tests.unit.cli.conftest import Oc

SANDBOX = "sb-00000001"


@pytest.mark.parametrize(
    ("command", "printed"),
    [
        ("ls --quiet", f"{SANDBOX}\n"),
        ("-q ls", f"{SANDBOX}\n"),
        ("create -q", "sb-00000002\n"),
        (f"kill {SANDBOX} -q", f"{SANDBOX}\n"),
        ("keys list -q", ""),
        (f"get {SANDBOX} --quiet", None),
    ],
)
def test_ids_alone_are_printed(
    oc: Oc, node: FakeNode, inside: FakeSandbox, command: str, printed: str | None
) -> None:
    outcome = oc(*command.split())
    assert (outcome.exit_code, outcome.stderr) == (0, "")
    assert outcome.stdout == printed or (printed is None and "Status:" in outcome.stdout)


def test_a_new_key_is_what_is_left_of_it(oc: Oc, node: FakeNode) -> None:
    outcome = oc("keys", "create", "ci", "--quiet")
    assert outcome.stdout.startswith("osb_")
    assert (outcome.stdout.count("\n"), outcome.stderr) == (1, "")


def test_warnings_stay(oc: Oc, node: FakeNode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENCOMPUTER_API_KEY")
    assert oc("ls", "--quiet").stderr.startswith("Warning: no API key.")


def test_json_stays_complete(oc: Oc, node: FakeNode, inside: FakeSandbox) -> None:
    assert json.loads(oc("ls", "-q", "--json").stdout)[0]["sandboxID"] == SANDBOX
