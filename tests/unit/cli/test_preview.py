"""Previews from the command line."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.support.fake_node import FakeNode
from tests.support.fake_node.node import FakeSandbox
from tests.unit.cli.conftest import Oc

Golden = Callable[[str, str], None]

SANDBOX = "sb-00000001"
RESULTS = [
    f"preview create {SANDBOX} --port 3000",
    f"preview create {SANDBOX} --port 80 --domain apps.example.com",
    f"preview list {SANDBOX}",
    f"preview delete {SANDBOX} 8000",
    f"preview rotate-auth {SANDBOX}",
    f"preview grant {SANDBOX} 8000 --ttl 60",
    f"preview grants {SANDBOX} 8000",
    f"preview revoke {SANDBOX} 8000 gr-1",
]


@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize("command", RESULTS)
def test_results_are_printed_as_written_down(
    oc: Oc, inside: FakeSandbox, golden: Golden, command: str, form: str
) -> None:
    oc("preview", "create", SANDBOX, "--port", "8000")
    oc("preview", "grant", SANDBOX, "8000")
    outcome = oc(*command.split(), *(["--json"] if form == "json" else []))
    assert outcome.exit_code == 0, outcome.stderr
    if form == "json":
        json.loads(outcome.stdout)
    golden(f"{command.replace(' ', '_').replace('--', '')}.{form}", outcome.stdout)


@pytest.mark.parametrize("command", ["preview", "preview create", "preview grant"])
def test_help_is_as_written_down(oc: Oc, golden: Golden, command: str) -> None:
    outcome = oc(*command.split(), "--help")
    assert outcome.exit_code == 0
    golden(f"help_{command.replace(' ', '_')}", outcome.stdout)


def test_empty_lists_say_so(oc: Oc, inside: FakeSandbox) -> None:
    assert oc("preview", "list", SANDBOX).stdout == "No preview URLs.\n"
    assert oc("preview", "grants", SANDBOX, "80").stdout == "No grants.\n"


def test_a_port_must_be_one(oc: Oc, inside: FakeSandbox) -> None:
    for port in ("0", "65536", "x"):
        assert "PORT" in oc("preview", "grant", SANDBOX, port).stderr


def test_what_is_not_there_cannot_be_deleted(oc: Oc, inside: FakeSandbox) -> None:
    assert oc("preview", "delete", SANDBOX, "80").exit_code != 0


@pytest.mark.parametrize(
    ("options", "sent"),
    [
        (["--preview-auth"], "auto"),
        (["--preview-auth-token", "sixteen-letters!"], "sixteen-letters!"),
    ],
)
def test_a_sandbox_may_be_created_with_a_token(oc: Oc, node: FakeNode, options: list[str], sent: str) -> None:
    outcome = oc("create", *options)
    asked = node.requests("POST", "/sandboxes")[-1].body
    assert isinstance(asked, dict)
    assert asked["previewAuth"] == {"scheme": "bearer", "token": sent}
    assert outcome.stdout.endswith(" running, preview token a-preview-token\n")
