"""Reading what engines say, however broken it is."""

from __future__ import annotations

import pytest

from opencomputer.server.runtimes.reading import count, items, members, words


def test_texts_are_such_that_a_database_takes_them() -> None:
    assert words("a\0b\ud800") == "a\ufffdb?"
    assert [words(value) for value in (None, 1, ["a"])] == ["", "", ""]


def test_what_is_no_object_has_no_members() -> None:
    assert members({"a": 1}) == {"a": 1}
    assert [members(value) for value in (None, "a")] == [{}, {}]


def test_only_objects_are_items() -> None:
    assert list(items([{"a": 1}, "b", None])) == [{"a": 1}]
    assert list(items({"a": 1})) == []


@pytest.mark.parametrize("value", [-1, True, 1.5, "3", None, 1 << 50])
def test_only_sensible_numbers_count(value: object) -> None:
    assert count(value) == 0
    assert count(7) == 7
