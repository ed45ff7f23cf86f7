"""What sudo's command lines mean."""

from __future__ import annotations

import pytest

from opencomputer.inside.sudo import arguments
from opencomputer.inside.sudo.arguments import UsageError, parse, shell_command


def test_a_plain_command_runs_as_root() -> None:
    parsed = parse(["ls", "-l", "--", "x"])
    assert (parsed.user, parsed.command) == ("root", ["ls", "-l", "--", "x"])


@pytest.mark.parametrize(
    "words",
    [
        ["-u", "www", "id"],
        ["-uwww", "id"],
        ["-nu", "www", "id"],
        ["-nuwww", "id"],
        ["--user", "www", "id"],
        ["--user=www", "id"],
        ["--user=www", "--", "id"],
        ["-nHkS", "-u", "www", "id"],
    ],
)
def test_a_user_can_be_named_in_every_form(words: list[str]) -> None:
    parsed = parse(words)
    assert (parsed.user, parsed.command, parsed.action) == ("www", ["id"], arguments.RUN)


def test_options_end_at_the_command() -> None:
    parsed = parse(["-n", "env", "-i", "A=1"])
    assert (parsed.command, parsed.login, parsed.assignments) == (["env", "-i", "A=1"], False, {})


def test_assignments_before_the_command_are_environment() -> None:
    parsed = parse(["-E", "A=1", "B=x=y", "cmd", "C=2"])
    assert parsed.assignments == {"A": "1", "B": "x=y"}
    assert parsed.command == ["cmd", "C=2"]
    assert parse(["--", "A=1", "cmd"]).assignments == {"A": "1"}


def test_what_is_no_name_is_no_assignment() -> None:
    assert parse(["./a=b"]).command == ["./a=b"]


def test_kept_variables_are_listed() -> None:
    parsed = parse(["--preserve-env=A,B", "--preserve-env=C", "cmd"])
    assert (parsed.keep, parsed.preserve) == (["A", "B", "C"], False)
    assert parse(["--preserve-env", "cmd"]).preserve


@pytest.mark.parametrize(
    ("words", "action"),
    [
        (["-l"], arguments.LIST),
        (["-v"], arguments.VALIDATE),
        (["-nv"], arguments.VALIDATE),
        (["-V"], arguments.VERSION),
        (["--version"], arguments.VERSION),
        (["-k"], arguments.FORGET),
        (["-K"], arguments.FORGET),
        (["-h"], arguments.HELP),
        (["-e", "file"], arguments.EDIT),
        (["-k", "cmd"], arguments.RUN),
        (["-i"], arguments.RUN),
        (["-s"], arguments.RUN),
    ],
)
def test_some_options_are_actions(words: list[str], action: str) -> None:
    assert parse(words).action == action


@pytest.mark.parametrize(
    "words", [[], ["-n"], ["-u"], ["--user"], ["-Z", "x"], ["--nope", "x"], ["-is", "x"], ["-R", "/", "x"]]
)
def test_nonsense_is_refused(words: list[str]) -> None:
    with pytest.raises(UsageError):
        parse(words)


def test_words_survive_a_shell() -> None:
    assert shell_command(["echo", "$HOME", "a b", "it's"]) == "echo $HOME a\\ b it\\'s"
