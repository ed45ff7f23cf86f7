"""What becomes of a delivery with each attempt: when it is tried again, and when it is given up."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TypeVar

_JITTER = 0.2
_LONGEST_WAIT = timedelta(hours=24)


class DeliveryStatus(StrEnum):
    PENDING = "pending"
    DELIVERING = "delivering"
    DELIVERED = "delivered"
    FAILED = "failed"
    DEAD_LETTER = "dead_letter"


@dataclass(frozen=True)
class Dispatch:
    """Something on its way to a destination. `budget`: attempts left before it is given up.

    `due_at` of one that is being delivered: until when it is held.
    """

    id: str
    destination_id: str
    event_id: str
    status: DeliveryStatus
    attempts: int
    budget: int
    due_at: datetime | None
    last_attempt_at: datetime | None
    response_code: int | None
    error: str | None
    created_at: datetime
    updated_at: datetime


_Dispatch = TypeVar("_Dispatch", bound=Dispatch)


@dataclass(frozen=True)
class Attempt:
    """How one sending ended. `code` None: there was no answer."""

    at: datetime
    code: int | None
    error: str | None
    retry_after: float | None = None

    @property
    def delivered(self) -> bool:
        return self.code is not None and 200 <= self.code < 300


@dataclass(frozen=True)
class Schedule:
    """When it is tried again. An answer among `final` ends it at once."""

    waits: tuple[timedelta, ...]
    final: Collection[int] = ()

    @property
    def attempts(self) -> int:
        """How often a delivery is tried before it is given up, and once more when it is asked for again."""
        return len(self.waits) + 1

    def wait(self, attempts: int, retry_after: float | None, chance: float) -> timedelta:
        """How long after so many attempts, when the receiver asked for a time, or for none."""
        usual = self.waits[min(attempts, len(self.waits)) - 1] * (1 + _JITTER * (2 * chance - 1))
        asked = timedelta(seconds=min(retry_after or 0, _LONGEST_WAIT.total_seconds()))
        return max(usual, asked)


def after(dispatch: _Dispatch, attempt: Attempt, schedule: Schedule, chance: float) -> _Dispatch:
    """What becomes of one that was just attempted. `chance` is a number from 0 to 1."""
    tried = replace(
        dispatch,
        attempts=dispatch.attempts + 1,
        budget=max(0, dispatch.budget - 1),
        last_attempt_at=attempt.at,
        response_code=attempt.code,
        error=attempt.error,
        updated_at=attempt.at,
        due_at=None,
    )
    if attempt.delivered:
        return replace(tried, status=DeliveryStatus.DELIVERED, error=None)
    if attempt.code in schedule.final or tried.budget == 0:
        return replace(tried, status=DeliveryStatus.DEAD_LETTER)
    wait = schedule.wait(schedule.attempts - tried.budget, attempt.retry_after, chance)
    return replace(tried, status=DeliveryStatus.FAILED, due_at=attempt.at + wait)
