"""`oc shell`, on a real terminal."""

from __future__ import annotations

import termios

import pytest

from opencomputer.cli.terminal import EscapeWatcher
from tests.support.fake_node import FakeNode
from tests.support.fake_node.node import FakeSandbox
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
        console.wait_until_raw()
        console.type(b'echo "$kept$kept"\r')
        console.read_until(b"yesyes")
        console.type(b"exit\r")
        assert console.wait() == 0


def test_a_lost_link_is_255_and_sets_the_terminal_right(node: FakeNode, inside: FakeSandbox) -> None:
    with OnTerminal(node, "shell", SANDBOX) as console:
        console.read_until(b"$ ")
        (terminal,) = inside.terminals.values()
        node.do(terminal.break_link)
        assert console.wait() == 255
        assert ended_with_the_terminal_as_before(console)
        assert b"link" in console.seen


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
