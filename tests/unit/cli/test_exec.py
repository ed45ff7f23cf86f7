"""`oc exec`, as a process of its own."""

from __future__ import annotations

import json
import signal
import subprocess

import pytest

from tests.support.fake_node import FakeNode, FakeSession
from tests.support.fake_node.node import FakeSandbox
from tests.unit.cli.conftest import Oc
from tests.unit.cli.process import finish, start

SANDBOX = "sb-00000001"


def test_output_passes_byte_for_byte_and_the_exit_code_with_it(node: FakeNode, inside: FakeSandbox) -> None:
    script = "printf 'a\\000\\377b'; printf err >&2; exit 7"
    process = start(node, "exec", SANDBOX, "--", "sh", "-c", script)
    assert finish(process) == (7, b"a\0\xffb", b"err")


def test_arguments_are_passed_as_given(node: FakeNode, inside: FakeSandbox) -> None:
    process = start(
        node,
        "exec",
        SANDBOX,
        "--env",
        "A=1",
        "--cwd",
        "/",
        "--timeout",
        "9",
        "--",
        "printf",
        "%s|",
        "--json",
        "$A",
    )
    assert finish(process)[:2] == (0, b"--json|$A|")
    assert node.requests("POST", "/exec")[0].body == {
        "cmd": "printf",
        "args": ["%s|", "--json", "$A"],
        "timeout": 9,
        "cwd": "/",
        "envs": {"A": "1"},
    }


def test_input_is_passed_on_in_order(node: FakeNode, inside: FakeSandbox) -> None:
    given = bytes(range(256)) * 400
    process = start(node, "exec", SANDBOX, "--", "head", "-c", str(len(given)))
    assert finish(process, given)[:2] == (0, given)


@pytest.mark.parametrize("given", [b"all of it", b""])
def test_the_end_of_input_reaches_a_program_that_reads_it(
    node: FakeNode, inside: FakeSandbox, given: bytes
) -> None:
    assert finish(start(node, "exec", SANDBOX, "--", "cat"), given)[:2] == (0, given)


def test_who_attaches_leaves_the_input_open_for_others(node: FakeNode, inside: FakeSandbox) -> None:
    session = FakeSession("cafe0001")
    inside.sessions["cafe0001"] = session
    process = start(node, "exec", "attach", SANDBOX, "cafe0001")
    assert process.stdin
    process.stdin.close()
    process.stdin = None
    node.do(session.say, 1, b"line\n")
    assert process.stdout
    assert process.stdout.readline() == b"line\n"
    node.do(session.exit, 0)
    assert finish(process)[0] == 0
    assert not session.stdin_ended


def test_a_program_killed_by_a_signal_reports_it(node: FakeNode, inside: FakeSandbox) -> None:
    assert finish(start(node, "exec", SANDBOX, "--", "sh", "-c", "kill -9 $$"))[0] == 137


def test_a_program_killed_at_its_timeout_says_so(node: FakeNode, inside: FakeSandbox) -> None:
    script = "sleep 1.2; kill -9 $$"
    process = start(node, "exec", SANDBOX, "--timeout", "1", "--", "sh", "-c", script)
    assert finish(process) == (137, b"", b"Killed after --timeout 1.\n")


def test_the_first_interrupt_goes_to_the_program(node: FakeNode, inside: FakeSandbox) -> None:
    process = start(node, "exec", SANDBOX, "--", "sh", "-c", "echo ready; exec sleep 30")
    assert process.stdout
    assert process.stdout.readline() == b"ready\n"
    process.send_signal(signal.SIGINT)
    code, _, err = finish(process)
    assert code == 130
    assert b"once more leaves it running" in err


def test_the_second_interrupt_leaves_the_program_running(node: FakeNode, inside: FakeSandbox) -> None:
    process = start(
        node, "exec", SANDBOX, "--", "sh", "-c", "trap 'echo no' INT; echo ready; while :; do sleep 0.1; done"
    )
    assert process.stdout
    assert process.stdout.readline() == b"ready\n"
    process.send_signal(signal.SIGINT)
    assert process.stdout.readline() == b"no\n"
    process.send_signal(signal.SIGINT)
    code, _, err = finish(process)
    assert code == 255
    (session,) = inside.sessions.values()
    assert f"oc exec attach {SANDBOX} {session.session_id}".encode() in err
    assert session.exit_code is None
    assert session.killed_with == [2]


def test_a_reader_who_goes_away_ends_the_program(node: FakeNode, inside: FakeSandbox) -> None:
    process = start(node, "exec", SANDBOX, "--", "yes")
    assert process.stdout
    assert process.stdout.readline() == b"y\n"
    process.stdout.close()
    process.stdout = None
    assert process.wait(20) == 141
    (session,) = inside.sessions.values()
    assert session.killed_with == [13]
    assert process.stderr
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.stdin
    process.stdin.close()


def test_a_lost_link_without_an_end_is_255(node: FakeNode, inside: FakeSandbox) -> None:
    process = start(node, "exec", SANDBOX, "--", "sh", "-c", "echo ready; sleep 30")
    assert process.stdout
    assert process.stdout.readline() == b"ready\n"
    (session,) = inside.sessions.values()
    inside.sessions.clear()
    node.do(session.drop)
    code, _, err = finish(process)
    assert code == 255
    assert b"ended before the session did" in err
    node.run(session.kill(9))


def test_wait_prints_everything_at_the_end(oc: Oc, node: FakeNode, inside: FakeSandbox) -> None:
    outcome = oc("exec", SANDBOX, "--wait", "--", "sh", "-c", "echo out; echo err >&2; exit 3")
    assert (outcome.exit_code, outcome.stdout, outcome.stderr) == (3, "out\n", "err\n")
    assert "idempotency-key" in node.requests("POST", "/exec/run")[0].headers


def test_wait_as_json_succeeds_whatever_the_command_did(oc: Oc, inside: FakeSandbox) -> None:
    outcome = oc("exec", SANDBOX, "--wait", "--json", "--", "sh", "-c", "echo out; exit 3")
    assert outcome.exit_code == 0
    assert json.loads(outcome.stdout) == {"exitCode": 3, "stdout": "out\n", "stderr": ""}


def test_detach_prints_the_session_and_attach_follows_it(oc: Oc, node: FakeNode, inside: FakeSandbox) -> None:
    outcome = oc("exec", SANDBOX, "--detach", "--", "sh", "-c", "echo said before; exit 5")
    session_id = outcome.stdout.strip()
    assert outcome.exit_code == 0
    assert f"oc exec attach {SANDBOX} {session_id}" in outcome.stderr
    assert finish(start(node, "exec", "attach", SANDBOX, session_id)) == (5, b"said before\n", b"")


def test_detach_as_json_prints_the_servers_object(oc: Oc, inside: FakeSandbox) -> None:
    outcome = oc("exec", SANDBOX, "--detach", "--json", "--", "true", "x")
    assert json.loads(outcome.stdout)["sessionID"] in inside.sessions


def test_attaching_to_nothing_is_a_refusal(node: FakeNode, inside: FakeSandbox) -> None:
    code, _, err = finish(start(node, "exec", "attach", SANDBOX, "none"))
    hint = b"Hint: see what is there: oc exec list sb-00000001\n"
    assert (code, err) == (3, b"Error: There is no such session.\n" + hint)


@pytest.mark.parametrize("closed", [True, False])
def test_input_that_ends_at_once_does_not_end_the_program(
    node: FakeNode, inside: FakeSandbox, closed: bool
) -> None:
    process = start(node, "exec", SANDBOX, "--", "sh", "-c", "sleep 0.2; echo still")
    if closed:
        assert process.stdin
        process.stdin.close()
        process.stdin = None
    assert finish(process)[:2] == (0, b"still\n")


def test_a_module_run_is_the_program(node: FakeNode) -> None:
    printed = subprocess.run(
        start(node, "--version").args, capture_output=True, check=True, timeout=20
    ).stdout
    assert printed.startswith(b"oc version ")
