"""Cutting: nothing gets longer than it may, and what is cut says so."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opencomputer.server.domain.sessions.excerpts import beginning, ending, middle_out, one_line


@given(st.text(), st.integers(min_value=1, max_value=300))
def test_no_excerpt_is_longer_than_it_may_be(text: str, most: int) -> None:
    assert len(one_line(text, most)) <= most
    assert len(ending(text, most)) <= most
    assert len(beginning(text, most)) <= most
    assert "\n" not in one_line(text, most)


@given(st.text(min_size=0, max_size=2000), st.integers(min_value=200, max_value=1000))
def test_a_text_cut_in_the_middle_has_both_ends_and_no_broken_letters(text: str, most: int) -> None:
    cut = middle_out(text, most)
    assert len(cut.encode()) <= most
    if len(text.encode(errors="replace")) <= most:
        assert cut == text.encode(errors="replace").decode()
    else:
        assert "left out" in cut
        assert text.startswith(cut.partition("\n[…")[0])


@pytest.mark.parametrize("text", ["short", ""])
def test_what_fits_stays_as_it_is(text: str) -> None:
    assert (beginning(text, 9), ending(text, 9), one_line(text, 9), middle_out(text, 99)) == (text,) * 4
