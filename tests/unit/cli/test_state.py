"""Checkpoints, forks, patches, sleep and diff from the command line."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.fake_node import FakeNode, Rule
from tests.support.fake_node.node import FakeSandbox
from tests.unit.cli.conftest import Oc

Golden = Callable[[str, str], None]

SANDBOX = "sb-00000001"
CHECKPOINT = "cp-1"
RESULTS = [
    f"checkpoint create {SANDBOX} --name before",
    f"checkpoint create {SANDBOX} --name before --wait",
    f"checkpoint list {SANDBOX}",
    f"checkpoint restore {SANDBOX} {CHECKPOINT}",
    f"checkpoint delete {SANDBOX} {CHECKPOINT}",
    f"checkpoint spawn {CHECKPOINT}",
    f"checkpoint publish {CHECKPOINT}",
    f"checkpoint unpublish {CHECKPOINT}",
    f"fork {SANDBOX} --count 2",
    f"hibernate {SANDBOX}",
    f"wake {SANDBOX}",
    f"reboot {SANDBOX}",
    f"power-cycle {SANDBOX}",
    f"sandbox hibernate {SANDBOX}",
    f"patch create {CHECKPOINT} --script SCRIPT",
    f"patch list {CHECKPOINT}",
    f"patch delete {CHECKPOINT} pa-1",
    f"diff {SANDBOX}",
    f"diff {SANDBOX} --from {CHECKPOINT}",
]
EMPTY = [f"checkpoint list {SANDBOX}", f"patch list {CHECKPOINT}", f"diff {SANDBOX}"]
HELP = [
    *("checkpoint", "checkpoint create", "checkpoint spawn", "fork", "diff", "patch", "patch create"),
    *("hibernate", "wake", "reboot", "power-cycle"),
]


def checkpoint(name: str, **fields: object) -> dict[str, object]:
    made: dict[str, object] = {
        "id": CHECKPOINT,
        "sandboxId": SANDBOX,
        "name": name,
        "kind": "full",
        "status": "ready",
        "sizeBytes": 7 << 20,
        "createdAt": "2026-01-02T03:04:05Z",
        "isPublic": False,
    }
    return made | fields


@pytest.fixture
def furnished(node: FakeNode, inside: FakeSandbox) -> FakeNode:
    """A node with a sandbox, checkpoints of it, patches and changes."""
    node.checkpoints[CHECKPOINT] = checkpoint("first")
    node.checkpoints["cp-2"] = checkpoint("bad \x1b[31mname", id="cp-2", status="failed", sizeBytes=0)
    patch: dict[str, object] = {
        "id": "pa-1",
        "checkpointId": CHECKPOINT,
        "sequence": 1,
        "script": "true",
        "description": None,
        "strategy": "on_wake",
        "createdAt": "2026-01-02T03:04:05Z",
    }
    node.patches[CHECKPOINT] = {"pa-1": patch}
    node.changes = [
        {"path": "/home/sandbox/new", "kind": "added", "size": 2048, "isDirectory": False},
        {"path": "/home/sandbox/folder", "kind": "added", "size": 0, "isDirectory": True},
        {"path": "/home/sandbox/gone\n", "kind": "deleted", "size": 0, "isDirectory": False},
    ]
    return node


@pytest.fixture
def script(tmp_path: Path) -> str:
    file = tmp_path / "script.sh"
    file.write_text("echo patched\n")
    return str(file)


@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize("command", RESULTS)
def test_results_are_printed_as_written_down(
    oc: Oc, furnished: FakeNode, golden: Golden, script: str, command: str, form: str
) -> None:
    arguments = [script if word == "SCRIPT" else word for word in command.split()]
    outcome = oc(*arguments, *(["--json"] if form == "json" else []))
    assert outcome.exit_code == 0, outcome.stderr
    if form == "json":
        json.loads(outcome.stdout)
    golden(f"{command.replace(' ', '_').replace('--', '')}.{form}", outcome.stdout)


@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize("command", EMPTY)
def test_empty_lists_say_so(oc: Oc, inside: FakeSandbox, golden: Golden, command: str, form: str) -> None:
    outcome = oc(*command.split(), *(["--json"] if form == "json" else []))
    assert outcome.exit_code == 0
    golden(f"empty_{command.replace(' ', '_')}.{form}", outcome.stdout)


@pytest.mark.parametrize("command", HELP)
def test_help_is_as_written_down(oc: Oc, golden: Golden, command: str) -> None:
    outcome = oc(*command.split(), "--help")
    assert outcome.exit_code == 0
    golden(f"help_{command.replace(' ', '_')}", outcome.stdout)


@pytest.mark.parametrize(
    "command",
    [
        f"checkpoint create {SANDBOX}",
        f"checkpoint create {SANDBOX} --name x --kind half",
        f"checkpoint create {SANDBOX} --name x --retention-max-count 3",
        f"checkpoint restore {SANDBOX}",
        f"checkpoint spawn {CHECKPOINT} --env novalue",
        f"fork {SANDBOX} --count 0",
        f"wake {SANDBOX} --timeout soon",
        f"patch create {CHECKPOINT}",
        f"patch create {CHECKPOINT} --script /no/such/file",
    ],
)
def test_bad_arguments_are_an_error_a_hint_at_most_and_exit_code_1(
    oc: Oc, furnished: FakeNode, command: str
) -> None:
    before = len(furnished.seen)
    outcome = oc(*command.split())
    assert (outcome.exit_code, outcome.stdout) == (1, "")
    error, *hints = outcome.stderr.splitlines()
    assert error.startswith("Error: ")
    assert [hint for hint in hints if not hint.startswith("Hint: oc ")] == hints[1:] == []
    assert len(furnished.seen) == before


@pytest.mark.parametrize(
    "command",
    [
        f"checkpoint restore {SANDBOX} cp-none",
        f"checkpoint delete {SANDBOX} cp-none",
        "checkpoint spawn cp-none",
        "checkpoint publish cp-none",
        "patch create cp-none --script SCRIPT",
        f"patch delete {CHECKPOINT} pa-none",
        f"diff {SANDBOX} --from cp-none",
        "hibernate sb-none",
    ],
)
def test_what_is_not_there_is_exit_code_3(oc: Oc, furnished: FakeNode, script: str, command: str) -> None:
    outcome = oc(*[script if word == "SCRIPT" else word for word in command.split()])
    assert (outcome.exit_code, outcome.stdout) == (3, "")
    assert outcome.stderr.splitlines()[-2].startswith("Error: There is no such ")


@pytest.mark.parametrize("command", ["hibernate", "fork", "reboot"])
def test_another_operation_in_progress_is_exit_code_4(oc: Oc, furnished: FakeNode, command: str) -> None:
    refusal = {"error": "A checkpoint is in progress.", "code": "operation_in_progress"}
    furnished.rules.append(Rule("POST", f"/sandboxes/{SANDBOX}/{command}", 409, refusal))
    outcome = oc(command, SANDBOX)
    assert (outcome.exit_code, outcome.stderr) == (
        4,
        "Error: A checkpoint is in progress.\nHint: try again shortly\n",
    )


def test_a_name_that_is_taken_is_exit_code_4(oc: Oc, furnished: FakeNode) -> None:
    assert oc("checkpoint", "create", SANDBOX, "--name", "first").exit_code == 4


def test_waiting_for_a_checkpoint_that_fails_says_why(oc: Oc, furnished: FakeNode) -> None:
    furnished.checkpoint_ends = {"status": "failed", "errorMsg": "a file is held open"}
    outcome = oc("checkpoint", "create", SANDBOX, "--name", "x", "--wait")
    assert (outcome.exit_code, outcome.stdout) == (1, "")
    assert "failed: a file is held open" in outcome.stderr


def test_checkpoint_options_are_sent(oc: Oc, furnished: FakeNode) -> None:
    options = "--kind disk_only --no-promote-to-full --retention-policy delete_oldest --retention-max-count 3"
    oc("checkpoint", "create", SANDBOX, "--name", "x", *options.split())
    oc("checkpoint", "create", SANDBOX, "--name", "y", "--retention-policy", "delete_oldest")
    first, second = (seen.body for seen in furnished.requests("POST", "/checkpoints"))
    assert first == {
        "name": "x",
        "kind": "disk_only",
        "promoteToFull": False,
        "retentionPolicy": {"mode": "delete_oldest", "maxCount": 3},
    }
    assert second == {"name": "y", "kind": "full", "retentionPolicy": {"mode": "delete_oldest"}}


def test_fork_options_are_sent(oc: Oc, furnished: FakeNode) -> None:
    options = "--timeout 60 --env A=1,B=2 --metadata team=x --secret-store keys"
    oc("fork", SANDBOX, "-n", "2", *options.split())
    oc("checkpoint", "spawn", CHECKPOINT, *options.split(), "--memory", "8192")
    wanted: dict[str, object] = {"timeout": 60, "envs": {"A": "1", "B": "2"}, "metadata": {"team": "x"}}
    wanted |= {"secretStore": "keys"}
    assert furnished.requests("POST", "/fork")[0].body == {"count": 2} | wanted
    assert furnished.requests("POST", f"/{CHECKPOINT}")[0].body == wanted | {"memoryMB": 8192}


def test_a_fork_whose_patch_failed_is_told(oc: Oc, furnished: FakeNode) -> None:
    made = {"sandboxID": "sb-2", "status": "running", "patchError": "patch 1: exit code 3"}
    furnished.rules.append(Rule("POST", f"/sandboxes/from-checkpoint/{CHECKPOINT}", 201, made))
    outcome = oc("checkpoint", "spawn", CHECKPOINT)
    assert (outcome.exit_code, outcome.stdout) == (0, "✓ sb-2 running\n")
    assert outcome.stderr == "Warning: a patch failed in it: patch 1: exit code 3\n"


def test_publishing_warns_that_everything_becomes_public(oc: Oc, furnished: FakeNode) -> None:
    outcome = oc("checkpoint", "publish", CHECKPOINT)
    assert "memory" in outcome.stderr
    assert oc("checkpoint", "unpublish", CHECKPOINT).stderr == ""


def test_wake_keeps_the_idle_time_unless_one_is_given(oc: Oc, furnished: FakeNode) -> None:
    oc("wake", SANDBOX)
    oc("wake", SANDBOX, "--timeout", "0")
    assert [seen.body for seen in furnished.requests("POST", "/wake")] == [{}, {"timeout": 0}]


def test_a_patch_may_come_from_standard_input(
    oc: Oc, furnished: FakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("echo piped\n"))
    assert oc("patch", "create", CHECKPOINT, "--script", "-", "--description", "why").exit_code == 0
    assert furnished.requests("POST", "/patches")[0].body == {"script": "echo piped\n", "description": "why"}


def test_a_script_that_is_no_text_is_refused_here(oc: Oc, furnished: FakeNode, tmp_path: Path) -> None:
    file = tmp_path / "binary"
    file.write_bytes(b"\xff\xfe\x00")
    outcome = oc("patch", "create", CHECKPOINT, "--script", str(file))
    assert (outcome.exit_code, outcome.stderr) == (1, f"Error: cannot read {file}: it is not text\n")


def test_what_went_wrong_with_a_sandbox_is_among_its_details(oc: Oc, furnished: FakeNode) -> None:
    plain = oc("get", SANDBOX).stdout
    furnished.sandboxes[SANDBOX].description |= {
        "fromCheckpointId": CHECKPOINT,
        "patchError": "patch 1 failed (exit 3)",
        "lastHibernateError": "no room",
    }
    added = oc("get", SANDBOX).stdout.splitlines()[len(plain.splitlines()) :]
    assert [line.split(":")[1].strip() for line in added] == [
        CHECKPOINT,
        "patch 1 failed (exit 3)",
        "no room",
    ]
