"""Logins that wait for somebody to approve them, and the codes they go by. No I/O here."""

from __future__ import annotations

import re
import secrets
from collections import deque
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from opencomputer.wire.ids import ApiKeyId, OrgId

LIFE = timedelta(minutes=10)
INTERVAL_SECONDS = 2
MOST_WAITING = 1000

# No vowels, so that no code is a word, and nothing that looks like another letter or digit.
_LETTERS = "BCDFGHJKLMNPQRSTVWXZ"
_CODE_LENGTH = 8
_NO_LETTER = re.compile(r"[^A-Z]")


class LoginState(StrEnum):
    WAITING = "waiting"
    APPROVED = "approved"
    DENIED = "denied"


@dataclass(frozen=True)
class DeviceLogin:
    """One login, from the moment a client asked for it. Neither code is in it, only what tells them.

    `org_id` and `approved_by` are there once it is approved: the key that approved it must still be valid
    when the client fetches its own.
    """

    device_hash: str
    user_code_hash: str
    state: LoginState
    requested_from: str
    created_at: datetime
    expires_at: datetime
    org_id: OrgId | None = None
    approved_by: ApiKeyId | None = None


def new_device_code() -> str:
    """The client's secret: 256 random bits."""
    return secrets.token_urlsafe(32)


def new_user_code() -> str:
    """Some 34 random bits for a person to type: too many to guess with the few tries there are."""
    letters = "".join(secrets.choice(_LETTERS) for _ in range(_CODE_LENGTH))
    return f"{letters[:4]}-{letters[4:]}"


def plain_user_code(typed: str) -> str:
    """A code as it was typed, without what people add or leave out."""
    return _NO_LETTER.sub("", typed.upper())


class Attempts:
    """Counts what went wrong lately, by who did it. At most so many within that time; then patience helps."""

    def __init__(self, most: int, within: timedelta) -> None:
        self._most = most
        self._within = within
        self._known: dict[str, deque[datetime]] = {}

    def exhausted(self, who: str, now: datetime) -> bool:
        """Whether they have to wait."""
        return len(self._recent(who, now)) >= self._most

    def note(self, who: str, now: datetime) -> None:
        """Count one."""
        for other in list(self._known):
            self._recent(other, now)
        self._known.setdefault(who, deque(maxlen=self._most)).append(now)

    def _recent(self, who: str, now: datetime) -> deque[datetime]:
        found = self._known.get(who, deque())
        while found and now - found[0] >= self._within:
            found.popleft()
        if not found:
            self._known.pop(who, None)
        return found
