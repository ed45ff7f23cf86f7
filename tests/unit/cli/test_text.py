"""The small pieces of text that commands share."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from opencomputer.cli import text
from opencomputer.cli.failures import CommandError


def test_columns_are_padded_to_their_widest_cell_and_two_spaces() -> None:
    assert text.table(["ID", "NAME"], [["a", "x"], ["long", "y"]]) == "ID    NAME\na     x\nlong  y"


def test_details_line_up() -> None:
    assert text.details([("ID", 1), ("Template", "base")]) == "ID:       1\nTemplate: base"


@pytest.mark.parametrize("evil", ["a\x1b[2Jb", "a\nb", "a\x07b", "a\x7fb", "a\x9bb", "a\rb"])
def test_control_characters_become_spaces(evil: str) -> None:
    shown = text.harmless(evil)
    assert shown.isprintable()
    assert shown.startswith("a ")


def test_a_table_cannot_be_broken_by_its_cells() -> None:
    assert "\x1b" not in text.table(["ID"], [["\x1b[31m"]])


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(0, "0s"), (59, "59s"), (60, "1m0s"), (3661, "1h1m1s"), (100_000, "27h46m40s"), (-5, "0s")],
)
def test_durations_are_whole_seconds(seconds: int, expected: str) -> None:
    assert text.duration(timedelta(seconds=seconds, milliseconds=400)) == expected


@pytest.mark.parametrize("since", ["", "yesterday"])
def test_an_unknown_age_is_a_dash(since: str) -> None:
    assert text.age(since, datetime.now(UTC)) == "-"


@pytest.mark.parametrize(
    ("count", "expected"),
    [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (5 << 20, "5.0 MiB"), (3 << 40, "3072.0 GiB")],
)
def test_sizes_are_for_people(count: int, expected: str) -> None:
    assert text.size(count) == expected


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ([], {}),
        (["A=1", "B=2"], {"A": "1", "B": "2"}),
        (["A=1,B=2"], {"A": "1", "B": "2"}),
        (["A=x=y"], {"A": "x=y"}),
        (["A="], {"A": ""}),
        (["LIST=a,b,c"], {"LIST": "a,b,c"}),
        (["A=1,2,B=3"], {"A": "1,2", "B": "3"}),
    ],
)
def test_assignments_are_read(options: list[str], expected: dict[str, str]) -> None:
    assert text.assignments(options, "--env") == expected


@pytest.mark.parametrize("option", ["A", "=x", ""])
def test_what_is_no_assignment_is_an_error(option: str) -> None:
    with pytest.raises(CommandError, match="--env takes NAME=VALUE"):
        text.assignments([option], "--env")


def test_lines_that_are_not_shown_are_counted() -> None:
    assert (text.more_lines(1), text.more_lines(2)) == ("… 1 more line", "… 2 more lines")
