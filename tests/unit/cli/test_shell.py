"""`oc shell`, on a real terminal."""

from __future__ import annotations

import signal as signals
import termios

import pytest

from opencomputer.cli.terminal import EscapeWatcher
from opencomputer.cli.terminal_session import redial_delays
from tests.support.fake_node import FakeNode, Rule
from tests.support.fake_node.node import FakeSandbox
from tests.support.fake_node.terminal import FakeTerminal
from tests.unit.cli.conftest import Oc
from tests.unit.cli.process import OnTerminal

SANDBOX = "sb-00000001"


def ended_with_the_terminal_as_before(console: OnTerminal) -> bool:
    return termios.tcgetattr(console.slave) == console.before


def test_keys_and_output_pass_and_the_end_of_the_shell_is_the_end(
    node: FakeNode, inside: FakeSandbox
) -> None:
    with OnTerminal(node, "shell", SANDBOX) as console:
        console.read_until(b"$ ")
        assert console.is_raw()
        console.type(b"echo $((6*7))\r")
        console.read_until(b"42")
        console.type(b"exit\r")
        assert console.wait() == 0
        assert ended_with_the_terminal_as_before(console)
    (terminal,) = inside.terminals.values()
    assert terminal.deleted


def test_control_characters_go_to_the_remote_program(node: FakeNode, inside: FakeSandbox) -> None:
    with OnTerminal(node, "shell", SANDBOX, "--shell", "/bin/dash") as console:
        console.read_until(b"$ ")
        console.type(b"trap 'echo caught $((6*7))' INT; echo armed $((6*7))\r")
        console.read_until(b"armed 42")
        console.type(b"\x03")
        console.read_until(b"^C")
        # This shell runs a trap after the next line.
        console.type(b"\r")
        console.read_until(b"caught 42")
        console.type(b"\x04")
        assert console.wait() == 0
    assert node.requests("POST", "/pty")[0].body == {"cols": 80, "rows": 24, "shell": "/bin/dash"}


def test_the_size_follows_the_window(node: FakeNode, inside: FakeSandbox) -> None:
    with OnTerminal(node, "shell", SANDBOX) as console:
        console.read_until(b"$ ")
        console.type(b"stty size\r")
        console.read_until(b"24 80")
        console.resize(columns=100, rows=30)
        while not node.requests("POST", "/resize"):
            console.type(b"\r")
            console.forget()
            console.read_until(b"$ ")
        console.type(b"stty size\r")
        console.read_until(b"30 100")
        console.type(b"exit\r")
        assert console.wait() == 0


def test_the_escape_leaves_the_terminal_running_and_it_can_be_taken_up(
    node: FakeNode, inside: FakeSandbox
) -> None:
    with OnTerminal(node, "shell", SANDBOX) as console:
        console.read_until(b"$ ")
        console.type(b"kept=yes\r")
        console.read_until(b"$ ")
        console.type(b"~.")
        assert console.wait() == 0
        assert ended_with_the_terminal_as_before(console)
        ((session_id, terminal),) = inside.terminals.items()
        assert f"--attach {session_id}".encode() in console.seen
        assert not terminal.deleted
    with OnTerminal(node, "shell", SANDBOX, "--attach", session_id) as console:
        console.read_until(b"kept=yes")  # what was said before comes first
        console.type(b'echo "$kept$kept"\r')
        console.read_until(b"yesyes")
        console.type(b"exit\r")
        assert console.wait() == 0


def test_a_lost_link_is_opened_again_and_nothing_is_lost(node: FakeNode, inside: FakeSandbox) -> None:
    with OnTerminal(node, "shell", SANDBOX) as console:
        console.read_until(b"$ ")
        (terminal,) = inside.terminals.values()
        node.do(terminal.break_link)
        node.do(terminal.type, b"echo while away $((6*7))\r")
        console.read_until(b"while away 42")
        console.type(b"echo typed $((7*7))\r")
        console.read_until(b"typed 49")
        assert console.seen.count(b"while away 42") == 1
        console.type(b"exit\r")
        assert console.wait() == 0


def without_link(node: FakeNode, inside: FakeSandbox, console: OnTerminal) -> FakeTerminal:
    """The console's terminal after its link was lost, once the person was told."""
    console.read_until(b"$ ")
    (terminal,) = inside.terminals.values()
    terminal.not_ready = True
    node.do(terminal.break_link)
    console.read_until(b"trying again")
    return terminal


def test_a_person_is_told_that_the_link_is_lost_and_that_it_is_back(
    node: FakeNode, inside: FakeSandbox
) -> None:
    with OnTerminal(node, "shell", SANDBOX) as console:
        terminal = without_link(node, inside, console)
        console.type(b"echo typed $((7*7))\r")
        terminal.not_ready = False
        console.read_until(b"Linked again.")
        console.read_until(b"typed 49")
        console.type(b"stty size\r")
        console.read_until(b"24 80")
        console.type(b"exit\r")
        assert console.wait() == 0


@pytest.mark.parametrize("keys", [b"\x03", b"half a line\r~."])
def test_a_terminal_without_a_link_can_be_left(node: FakeNode, inside: FakeSandbox, keys: bytes) -> None:
    with OnTerminal(node, "shell", SANDBOX) as console:
        terminal = without_link(node, inside, console)
        console.type(keys)
        assert console.wait() == 255
        assert ended_with_the_terminal_as_before(console)
        assert f"--attach {terminal.session_id}".encode() in console.seen
    assert not terminal.deleted


def test_a_lost_link_is_tried_again_soon_and_for_some_minutes() -> None:
    delays = list(redial_delays())
    assert delays[0] < 1
    assert max(delays) < 10
    assert sum(delays) >= 300


@pytest.mark.parametrize("signal", [signals.SIGTERM, signals.SIGHUP])
def test_a_signal_leaves_the_terminal_running_and_sets_ours_right(
    node: FakeNode, inside: FakeSandbox, signal: signals.Signals
) -> None:
    with OnTerminal(node, "shell", SANDBOX) as console:
        console.read_until(b"$ ")
        console.send(signal)
        assert console.wait() == 0
        assert ended_with_the_terminal_as_before(console)
    (terminal,) = inside.terminals.values()
    assert not terminal.deleted


def test_a_link_that_stays_lost_is_255_and_sets_the_terminal_right(
    node: FakeNode, inside: FakeSandbox
) -> None:
    with OnTerminal(node, "shell", SANDBOX) as console:
        console.read_until(b"$ ")
        (terminal,) = inside.terminals.values()
        node.do(inside.terminals.clear)
        node.do(terminal.break_link)
        assert console.wait() == 255
        assert ended_with_the_terminal_as_before(console)
        assert b"link to the sandbox was lost, and there is none again: There is no such" in console.seen
        assert b"--attach" not in console.seen


def test_terminals_are_listed(oc: Oc, node: FakeNode, inside: FakeSandbox) -> None:
    assert oc("shell", SANDBOX, "--list").stdout == "No terminals.\n"
    inside.terminals["0000a009"] = FakeTerminal("0000a009")
    inside.terminals["0000a009"].deleted = True
    header, row = oc("shell", SANDBOX, "--list").stdout.splitlines()
    assert header.split() == ["ID", "STATUS", "CLIENTS", "STARTED", "SHELL"]
    assert row.split() == ["0000a009", "ended", "0", "2026-01-02T03:04:05Z", "/bin/bash"]


def test_a_name_that_is_no_id_is_that_of_a_hosted_agent(oc: Oc, node: FakeNode, inside: FakeSandbox) -> None:
    outcome = oc("shell", "helper", "--list")
    assert outcome.exit_code == 3
    assert "is no hosted agent of this server" in outcome.stderr
    instances = [
        {"id": "i1", "status": "hibernated", "sandbox_id": "sb-00000009"},
        {"id": "i2", "status": "running", "sandbox_id": SANDBOX},
    ]
    node.rules.append(Rule("GET", "/v1/agents/helper/instances", 200, {"instances": instances}))
    assert oc("shell", "helper", "--list").stdout == "No terminals.\n"


def test_a_refusal_leaves_the_terminal_alone(node: FakeNode) -> None:
    with OnTerminal(node, "shell", "sb-missing") as console:
        assert console.wait() == 3
        assert ended_with_the_terminal_as_before(console)


@pytest.mark.parametrize(
    ("typed", "passed", "left"),
    [
        ([b"~."], b"", True),
        ([b"~", b"."], b"", True),
        ([b"ls\r~."], b"ls\r", True),
        ([b"ls~."], b"ls~.", False),
        ([b"~~."], b"~.", False),
        ([b"~x"], b"~x", False),
        ([b"a\r", b"~", b"\r~."], b"a\r~\r", True),
        ([b"x\n~.rest"], b"x\n", True),
    ],
)
def test_the_escape_is_a_tilde_and_a_point_at_the_beginning_of_a_line(
    typed: list[bytes], passed: bytes, left: bool
) -> None:
    watcher = EscapeWatcher()
    results = [watcher.feed(keys) for keys in typed]
    assert b"".join(keys for keys, _ in results) == passed
    assert any(leaving for _, leaving in results) is left
