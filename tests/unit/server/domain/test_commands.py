"""What a command on the wire means (decision D7)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opencomputer.server.domain.commands import check_directory, login_shell, resolve_command
from opencomputer.server.domain.errors import InvalidInput


@pytest.mark.parametrize("command", ["ls", "/usr/bin/env", "./run.sh", "python3.11", "a_b-c@d%e+f,g:h"])
def test_one_plain_word_is_executed_directly(command: str) -> None:
    assert resolve_command(command, None) == (command,)
    assert resolve_command(command, []) == (command,)


@pytest.mark.parametrize(
    "command",
    [
        "ls -l",
        "node server.js",
        "a;b",
        "a|b",
        "a&",
        "$HOME/x",
        "`x`",
        "a>b",
        "a<b",
        "~/x",
        "*.py",
        "x?",
        "'a'",
        '"a"',
        "(a)",
        "{a,b}",
        "#",
        "A=B",
        "a\\b",
        "a\nb",
        "a\tb",
        "!x",
        "ls\n",
        " ",
        "größe",
    ],
)
def test_anything_else_goes_through_the_shell(command: str) -> None:
    assert resolve_command(command, None) == ("/bin/sh", "-c", command)


def test_with_arguments_a_command_is_never_interpreted() -> None:
    assert resolve_command("ls -l; x", ["$HOME", "*"]) == ("ls -l; x", "$HOME", "*")
    assert resolve_command("sh", ["-c", "echo a b"]) == ("sh", "-c", "echo a b")


@pytest.mark.parametrize(("command", "arguments"), [("a\0b", None), ("a", ["b\0c"]), ("a", ["x", "\0"])])
def test_nul_can_be_in_no_argument(command: str, arguments: list[str] | None) -> None:
    with pytest.raises(InvalidInput):
        resolve_command(command, arguments)


@given(st.text(st.characters(exclude_characters="\0"), min_size=1))
def test_the_command_reaches_the_process_unchanged(command: str) -> None:
    """Whichever way it is taken, not a letter of it is lost, split or quoted."""
    assert resolve_command(command, None)[-1] == command


def test_a_directory_is_a_path_or_absent() -> None:
    check_directory(None)
    check_directory("relative/too")
    for bad in ("", "a\0b"):
        with pytest.raises(InvalidInput) as refused:
            check_directory(bad)
        assert refused.value.details["field"] == "cwd"


def test_a_terminal_runs_a_login_shell_that_every_template_has() -> None:
    """Which shells a template has is only known inside it."""
    program, option, script = login_shell(None)
    assert (program, option) == ("/bin/sh", "-c")
    assert script.index("/bin/bash -l") < script.index("/bin/sh -l")


def test_a_terminal_runs_the_shell_that_was_asked_for_as_a_login_shell() -> None:
    """As a person at a console would get it."""
    assert login_shell("/usr/bin/zsh") == ("/usr/bin/zsh", "-l")


def test_a_terminal_may_run_what_is_no_shell() -> None:
    """It gets no option that it does not know."""
    assert login_shell("/usr/bin/python3") == ("/usr/bin/python3",)


@pytest.mark.parametrize("shell", ["", "/bin/\0sh"])
def test_a_terminal_needs_a_program(shell: str) -> None:
    """An empty name or a NUL is refused before it reaches the machine."""
    with pytest.raises(InvalidInput):
        login_shell(shell)
