"""Cron expressions in the nights in which clocks change, and everywhere else."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from opencomputer.server.domain.sessions.crons import check_timing, next_time
from opencomputer.server.domain.sessions.errors import InvalidCron

NEW_YORK, LONDON, LORD_HOWE = "America/New_York", "Europe/London", "Australia/Lord_Howe"
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def firings(cron: str, tz: str, begin: str, count: int) -> list[str]:
    """The next so many, as clocks there show them; `begin` is such a time, too, with its offset."""
    at, found = datetime.fromisoformat(begin), list[str]()
    for _ in range(count):
        at = next_time(cron, tz, at)
        found.append(at.astimezone(ZoneInfo(tz)).strftime("%d %H:%M %z"))
    return found


@pytest.mark.parametrize(
    ("cron", "tz", "begin", "expected"),
    [
        ("30 2 * * *", NEW_YORK, "2026-03-07T12:00-05:00", ["08 03:00 -0400", "09 02:30 -0400"]),
        ("30 1 * * *", LONDON, "2026-03-28T12:00+00:00", ["29 02:00 +0100", "30 01:30 +0100"]),
        ("15 2 * * *", LORD_HOWE, "2026-10-03T12:00+10:30", ["04 02:30 +1100", "05 02:15 +1100"]),
        ("0 12 30 12 *", "Pacific/Apia", "2011-12-29T12:00-10:00", ["31 00:00 +1400", "30 12:00 +1400"]),
        (
            *("*/15 * * * *", NEW_YORK, "2026-03-08T01:31-05:00"),
            ["08 01:45 -0500", "08 03:00 -0400", "08 03:15 -0400"],
        ),
        (
            *("*/15 2 * * *", NEW_YORK, "2026-03-08T01:00-05:00"),
            ["08 03:00 -0400", "09 02:00 -0400", "09 02:15 -0400"],
        ),
    ],
)
def test_a_time_that_the_clock_leaps_over_is_the_moment_of_the_leap(
    cron: str, tz: str, begin: str, expected: list[str]
) -> None:
    assert firings(cron, tz, begin, len(expected)) == expected


@pytest.mark.parametrize(
    ("cron", "tz", "begin", "expected"),
    [
        ("30 1 * * *", NEW_YORK, "2026-10-31T12:00-04:00", ["01 01:30 -0400", "02 01:30 -0500"]),
        ("30 1 * * *", NEW_YORK, "2026-11-01T01:10-05:00", ["02 01:30 -0500"]),
        ("30 1 * * *", LONDON, "2026-10-24T12:00+01:00", ["25 01:30 +0100", "26 01:30 +0000"]),
        ("45 1 * * *", LORD_HOWE, "2026-04-04T12:00+11:00", ["05 01:45 +1100", "06 01:45 +1030"]),
        (
            *("*/15 * * * *", NEW_YORK, "2026-11-01T01:31-04:00"),
            ["01 01:45 -0400", "01 02:00 -0500", "01 02:15 -0500"],
        ),
        (
            *("*/15 * * * *", LORD_HOWE, "2026-04-05T01:31+11:00"),
            ["05 01:45 +1100", "05 02:00 +1030", "05 02:15 +1030"],
        ),
    ],
)
def test_a_time_that_the_clock_shows_twice_is_the_first_of_them(
    cron: str, tz: str, begin: str, expected: list[str]
) -> None:
    assert firings(cron, tz, begin, len(expected)) == expected


def test_the_next_time_is_later_than_now_even_if_now_fits() -> None:
    assert next_time("0 12 * * *", None, NOON) == datetime(2026, 1, 2, 12, tzinfo=UTC)
    assert next_time("0 12 29 2 *", None, NOON) == datetime(2028, 2, 29, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    "cron", ["0  9\t* * MON-FRI", "0 9 * * mon-fri", "*/5 0-3,6 L 1-12 *", "0 0 * * 1#2"]
)
def test_five_fields_are_kept_with_single_spaces(cron: str) -> None:
    assert check_timing(cron, "Europe/Berlin", NOON) == (" ".join(cron.split()), "Europe/Berlin")


@pytest.mark.parametrize(
    ("cron", "tz", "field"),
    [
        *((cron, None, "cron") for cron in ("", "a", "* * * *", "* * * * * *", "@daily", "60 * * * *")),
        *((cron, None, "cron") for cron in ("0 0 30 2 *", "* * * * 9", "１ * * * *", "*/0 * * * *")),
        ("0 0 * * " + "1," * 200 + "1", None, "cron"),
        *(
            ("* * * * *", tz, "tz")
            for tz in ("", "Mars/Olympus", "../../etc/passwd", "/etc/localtime", "EST5\x00")
        ),
    ],
)
def test_what_is_no_timing_is_refused_and_says_where(cron: str, tz: str | None, field: str) -> None:
    with pytest.raises(InvalidCron) as refused:
        check_timing(cron, tz, NOON, "schedules.0.")
    assert refused.value.details == {"field": f"schedules.0.{field}"}
