"""What logins that wait for approval need from storage."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol

from opencomputer.server.domain.device_login import DeviceLogin, LoginState
from opencomputer.wire.ids import ApiKeyId, OrgId


class DeviceLoginStore(Protocol):
    async def add(self, login: DeviceLogin, *, most: int) -> bool:
        """Insert it and remove those that have expired. False, and nothing, where so many wait already."""
        ...

    async def decide(
        self, user_code_hash: str, state: LoginState, decider: tuple[OrgId, ApiKeyId], now: datetime
    ) -> DeviceLogin | None:
        """Approve or deny the one that waits with this code; None where none does, or no longer."""
        ...

    async def take(self, device_hash: str, now: datetime) -> DeviceLogin | None:
        """The login as it is; one that is decided is taken out, so that nobody gets it twice.

        None where there is none, or it has expired."""
        ...
