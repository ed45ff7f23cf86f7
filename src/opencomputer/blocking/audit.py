# Generated from src/opencomputer/sdk/audit.py by scripts/generate_blocking.py
"""The blocking twins of `opencomputer.sdk.audit`; see there."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from opencomputer.blocking.support.twin import Twin

if TYPE_CHECKING:
    from opencomputer.sdk import audit as sdk
    from opencomputer.sdk.answers import Described


class AuditTrail(Twin):
    """The part of a `Sandbox` that is about what it reached."""

    def audit(
        self, *, after: int = 0, decision: str | None = None, host: str | None = None
    ) -> list[Described]:
        """The connections it made and was refused, oldest first; also when it sleeps or is stopped.

        `decision` is "allowed" or "denied"; `host` a name or `*.example.com`; `after` the `position` of the
        last event seen before, so that a log can be followed. Never any content, never a secret's value.
        """
        return self._run(self._original.audit(after=after, decision=decision, host=host))

    @property
    def _original(self) -> sdk.AuditTrail:
        return cast("sdk.AuditTrail", self._wrapped)
