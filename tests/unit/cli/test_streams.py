"""Standard streams that are closed, or lead where nothing can be written."""

from __future__ import annotations

import subprocess

import pytest

from tests.support.fake_node import FakeNode
from tests.support.fake_node.node import FakeSandbox
from tests.unit.cli.process import DEADLINE_SECONDS, PROGRAM, environment

SANDBOX = "sb-00000001"


def oc_in_shell(node: FakeNode, redirection: str, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    """With a buffer, as `oc` has one when a person starts it."""
    return subprocess.run(
        ["sh", "-c", f'"$@" {redirection}', "sh", *PROGRAM, *arguments],
        env={**environment(node), "PYTHONUNBUFFERED": ""},
        capture_output=True,
        timeout=DEADLINE_SECONDS,
        check=False,
    )


@pytest.mark.parametrize("arguments", [("--version",), ("ls",), ("ls", "--json")])
def test_output_that_cannot_be_written_is_one_line(node: FakeNode, arguments: tuple[str, ...]) -> None:
    ended = oc_in_shell(node, ">/dev/full", *arguments)
    assert ended.returncode == 1
    assert ended.stderr.count(b"\n") == 1
    assert b"the output cannot be written: No space left on device" in ended.stderr


def test_an_output_that_nobody_reads_is_no_error_to_tell(node: FakeNode) -> None:
    assert oc_in_shell(node, "| true", "ls").stderr == b""


@pytest.mark.parametrize("arguments", [("ls",), ("exec", SANDBOX, "--", "echo", "hello")])
def test_a_closed_output_leads_nowhere(
    node: FakeNode, inside: FakeSandbox, arguments: tuple[str, ...]
) -> None:
    ended = oc_in_shell(node, ">&-", *arguments)
    assert (ended.returncode, ended.stderr) == (0, b"")


def test_a_closed_input_is_at_its_end(node: FakeNode, inside: FakeSandbox) -> None:
    ended = oc_in_shell(node, "<&-", "exec", SANDBOX, "--", "cat")
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, b"", b"")
