"""Codes of logins, and how many tries there are."""

from __future__ import annotations

import re
from datetime import timedelta

from opencomputer.server.domain.device_login import Attempts, new_device_code, new_user_code, plain_user_code
from tests.support.rows import at


def test_codes_are_of_their_shape_and_never_the_same() -> None:
    made = {new_user_code() for _ in range(200)}
    assert len(made) == 200
    assert all(re.fullmatch(r"[BCDFGHJKLMNPQRSTVWXZ]{4}-[BCDFGHJKLMNPQRSTVWXZ]{4}", code) for code in made)
    assert len(new_device_code()) >= 43


def test_a_code_may_be_typed_in_any_way() -> None:
    assert plain_user_code(" bcdf ghjk\n") == plain_user_code("BCDF-GHJK") == "BCDFGHJK"


def test_so_many_attempts_are_free_and_time_gives_more() -> None:
    attempts = Attempts(2, timedelta(seconds=60))
    for second in (0, 30):
        assert not attempts.exhausted("one", at(second))
        attempts.note("one", at(second))
    assert attempts.exhausted("one", at(59))
    assert not attempts.exhausted("other", at(59))
    assert not attempts.exhausted("one", at(60))


def test_what_is_long_ago_is_not_kept() -> None:
    attempts = Attempts(2, timedelta(seconds=60))
    for number in range(100):
        attempts.note(f"address {number}", at(0))
    attempts.note("another", at(60))
    assert len(attempts._known) == 1  # pyright: ignore[reportPrivateUsage]  # nothing else shows it
