"""When a cron expression fits next, in a zone whose clocks change (agent-sessions.md section 4.11).

An expression fits times as a clock on the wall shows them. Each such time is one moment: where the clock
shows it twice the first one, and where the clock leaps over it the moment of the leap. So nothing
fires twice, or is left out, in the nights in which clocks change.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from cronsim import CronSim, CronSimError

from opencomputer.server.domain.sessions.errors import InvalidCron

MAX_CRON_CHARACTERS = 256
_FIELDS = re.compile(r"\S+(?: +\S+){4}")
_MINUTE = timedelta(minutes=1)


def check_timing(cron: str, tz: str | None, at: datetime, field: str = "") -> tuple[str, str | None]:
    """An expression and a zone as they are kept. `field` is where both were named.

    Raises InvalidCron, also for what never fits after `at`.
    """
    fields = " ".join(cron.split())
    if len(cron) > MAX_CRON_CHARACTERS or not fields.isascii() or not _FIELDS.fullmatch(fields):
        raise InvalidCron(
            "cron must have five fields: minute, hour, day of month, month, day of week", field=f"{field}cron"
        )
    if tz is not None and tz not in _zones():
        raise InvalidCron("tz must be the name of a time zone, like Europe/Berlin", field=f"{field}tz")
    try:
        next_time(fields, tz, at)
    except InvalidCron as error:
        raise InvalidCron(error.message, field=f"{field}cron") from error
    return fields, tz


def next_time(cron: str, tz: str | None, after: datetime) -> datetime:
    """The first moment after `after` at which an expression fits. Raises InvalidCron if there is none."""
    try:
        zone = ZoneInfo(tz or "UTC")
        # Wall times that the clock had shown by then are moments that have been.
        for wall in CronSim(cron, after.astimezone(zone).replace(tzinfo=None)):
            moment = _moment(wall, zone)
            if moment > after:
                return moment
    except (CronSimError, ZoneInfoNotFoundError) as error:
        raise InvalidCron(f"cron: {error}") from error
    raise InvalidCron("cron: there is no such day")


def _moment(wall: datetime, zone: ZoneInfo) -> datetime:
    """When a clock on the wall shows this for the first time, or leaps over it."""
    moment = wall.replace(tzinfo=zone).astimezone(UTC)
    if _shown(moment, zone) == wall:
        return moment
    # The leap is between what this would be with the offset after it, and with the one before it.
    before = wall.replace(tzinfo=zone, fold=1).astimezone(UTC)
    while moment - before > _MINUTE:
        middle = before + (moment - before) // 2
        if _shown(middle, zone) < wall:
            before = middle
        else:
            moment = middle
    return moment.replace(second=0, microsecond=0)


def _shown(moment: datetime, zone: ZoneInfo) -> datetime:
    return moment.astimezone(zone).replace(tzinfo=None)


@lru_cache(maxsize=1)
def _zones() -> frozenset[str]:
    return frozenset(available_timezones())
