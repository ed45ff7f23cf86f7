"""Marks are found in pieces of any size, and never shown."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opencomputer.sdk.shell_protocol import MarkScanner, RunOutput, script

TOKEN = "0123abcd" * 4
DONE = f"__OC_{TOKEN}_DONE__".encode()


def pieces(data: bytes, cuts: list[int]) -> list[bytes]:
    bounds = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    return [data[start:end] for start, end in pairwise(bounds)]


@given(
    output=st.binary(max_size=80).filter(lambda output: DONE not in output + DONE[:-1]),
    cuts=st.lists(st.integers(0, 200), max_size=20),
)
def test_output_before_the_mark_comes_through_whatever_the_pieces(output: bytes, cuts: list[int]) -> None:
    scanner = MarkScanner(DONE)
    shown = b"".join(scanner.feed(piece) for piece in pieces(output + DONE + b"later", cuts))
    assert shown == output
    assert scanner.after == b"later"


@given(length=st.integers(0, len(DONE) - 1))
def test_the_beginning_of_a_mark_is_held_back_until_it_proves_to_be_none(length: int) -> None:
    scanner = MarkScanner(DONE)
    assert scanner.feed(b"text" + DONE[:length]) == b"text"
    assert scanner.feed(b"!") == DONE[:length] + b"!"


def test_output_that_cannot_be_a_mark_is_shown_at_once() -> None:
    assert MarkScanner(DONE).feed(b"a prompt without end of line> ") == b"a prompt without end of line> "


@pytest.mark.parametrize("stdout_first", [True, False])
def test_a_run_is_complete_only_when_both_marks_were_seen(stdout_first: bool) -> None:
    output = RunOutput(TOKEN)
    feeds = [
        lambda: output.feed_stdout(b"out" + DONE),
        lambda: output.feed_stderr(b"err" + f"__OC_{TOKEN}_EXIT_17__".encode()),
    ]
    for feed in feeds if stdout_first else reversed(feeds):
        assert output.exit_code is None
        feed()
    assert (output.exit_code, output.stdout, output.stderr) == (17, "out", "err")


def test_an_exit_code_that_comes_in_pieces_is_read_as_a_whole() -> None:
    output = RunOutput(TOKEN)
    output.feed_stdout(DONE)
    for byte in f"__OC_{TOKEN}_EXIT_255__".encode():
        assert output.exit_code is None
        output.feed_stderr(bytes([byte]))
    assert output.exit_code == 255


def test_a_character_cut_in_two_is_whole_in_the_result() -> None:
    output = RunOutput(TOKEN)
    for byte in "☕".encode() + DONE:
        output.feed_stdout(bytes([byte]))
    assert output.stdout == "☕"


def test_the_script_never_holds_the_marks_themselves() -> None:
    """Shells that print what they read (`set -v`) would end the run before it began."""
    lines = script("true", TOKEN).encode()
    assert DONE not in lines
    assert f"__OC_{TOKEN}_EXIT_".encode() not in lines


def test_nul_is_refused() -> None:
    with pytest.raises(ValueError, match="NUL"):
        script("echo \0", TOKEN)
