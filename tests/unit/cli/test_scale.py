"""The size of a sandbox from the command line."""

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
    f"scale {SANDBOX} 8192",
    f"sandbox scale {SANDBOX} 16384",
    f"sandbox autoscale {SANDBOX}",
    f"sandbox autoscale {SANDBOX} --on --min 1024 --max 8192",
    f"sandbox autoscale {SANDBOX} --off",
    f"sandbox lock {SANDBOX}",
    f"sandbox unlock {SANDBOX}",
    f"sandbox lock-status {SANDBOX}",
]


@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize("command", RESULTS)
def test_results_are_printed_as_written_down(
    oc: Oc, inside: FakeSandbox, golden: Golden, command: str, form: str
) -> None:
    outcome = oc(*command.split(), *(["--json"] if form == "json" else []))
    assert outcome.exit_code == 0, outcome.stderr
    if form == "json":
        json.loads(outcome.stdout)
    golden(f"{command.replace(' ', '_').replace('--', '')}.{form}", outcome.stdout)


@pytest.mark.parametrize("command", ["scale", "sandbox autoscale", "sandbox lock", "sandbox lock-status"])
def test_help_is_as_written_down(oc: Oc, golden: Golden, command: str) -> None:
    outcome = oc(*command.split(), "--help")
    assert outcome.exit_code == 0
    golden(f"help_{command.replace(' ', '_')}", outcome.stdout)


def test_it_says_that_autoscaling_is_off_now(oc: Oc, inside: FakeSandbox) -> None:
    oc("sandbox", "autoscale", SANDBOX, "--on", "--min", "1024", "--max", "8192")
    assert "autoscaling is off now" in oc("scale", SANDBOX, "8192").stdout
    assert "autoscaling" not in oc("scale", SANDBOX, "8192").stdout


def test_a_lock_is_told(oc: Oc, inside: FakeSandbox) -> None:
    oc("sandbox", "lock", SANDBOX)
    refused = oc("scale", SANDBOX, "8192")
    assert refused.exit_code != 0
    assert "locked" in refused.stderr
    assert oc("sandbox", "lock-status", SANDBOX).stdout == f"the size of {SANDBOX} is locked\n"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("--on --off", "--on and --off"),
        ("--on", "--min and --max"),
        ("--on --min 1024", "--min and --max"),
        ("--min 1024", "--on or --off"),
        ("--on --min small --max 8192", "--min"),
    ],
)
def test_options_that_contradict_are_refused_here(oc: Oc, node: FakeNode, options: str, said: str) -> None:
    refused = oc("sandbox", "autoscale", SANDBOX, *options.split())
    assert refused.exit_code == 1
    assert said in refused.stderr
    assert node.seen == []
