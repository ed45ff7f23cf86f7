"""Global options may stand anywhere, and short forms are written out."""

from __future__ import annotations

import pytest

from opencomputer.cli.arguments import output_flags, prepared


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["ls", "--json"], ["--json", "ls"]),
        (["--json", "ls"], ["--json", "ls"]),
        (["keys", "--api-key", "k", "list"], ["--api-key", "k", "keys", "list"]),
        (["ls", "--api-url=http://x"], ["--api-url=http://x", "ls"]),
        (["exec", "sb-1", "--", "ls", "--json"], ["exec", "run", "sb-1", "--", "ls", "--json"]),
        (["exec", "--wait", "sb-1", "--", "ls"], ["exec", "run", "--wait", "sb-1", "--", "ls"]),
        (["exec", "list", "sb-1"], ["exec", "list", "sb-1"]),
        (["exec", "--help"], ["exec", "--help"]),
        (["exec"], ["exec"]),
        ([], ["--help"]),
        (["help"], ["--help"]),
        (["help", "keys", "create"], ["keys", "create", "--help"]),
        (["ls", "--api-key"], ["ls", "--api-key"]),
        (["cp", "list", "sb-1"], ["checkpoint", "list", "sb-1"]),
        (["cp", "create", "sb-1", "--name", "x"], ["checkpoint", "create", "sb-1", "--name", "x"]),
        (["cp", "create", "sb-1:/tmp"], ["cp", "create", "sb-1:/tmp"]),
        (["cp", "sb-1:list", "delete"], ["cp", "sb-1:list", "delete"]),
    ],
)
def test_arguments_are_prepared(given: list[str], expected: list[str]) -> None:
    assert prepared(given) == expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [(["ls", "--json"], True), (["exec", "sb-1", "--", "x", "--json"], False), (["ls"], False)],
)
def test_json_is_wanted_only_by_our_own_option(given: list[str], expected: bool) -> None:
    assert output_flags(given).json is expected
