# Generated from src/opencomputer/sdk/auth_check.py by scripts/generate_blocking.py
"""The blocking twins of `opencomputer.sdk.auth_check`; see there."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from opencomputer.blocking.support.twin import Twin

if TYPE_CHECKING:
    from opencomputer.sdk import auth_check as sdk
    from opencomputer.sdk.answers import Described


class AuthCheck(Twin):
    """A check that `BrowserProfile.check_auth` began."""

    @property
    def id(self) -> str:
        return self._original.id

    @property
    def raw(self) -> Described:
        """All that the server says of it, its result included."""
        return self._original.raw

    @property
    def status(self) -> str:
        """What was last heard of its state, in the server's word."""
        return self._original.status

    @property
    def finished(self) -> bool:
        """Whether it has come to an end, with or without a result. Words that are not known are an end."""
        return self._original.finished

    def refresh(self) -> AuthCheck:
        """Ask how far it is, and return this."""
        return self._self_or(AuthCheck, self._run(self._original.refresh()))

    def wait(self, interval: float = 2.0, timeout: float | None = 120.0) -> AuthCheck:
        """Ask every `interval` seconds until it has finished, and return this.

        Raises `TimeoutError` after `timeout` seconds; None waits without limit.
        """
        return self._self_or(AuthCheck, self._run(self._original.wait(interval, timeout)))

    @property
    def _original(self) -> sdk.AuthCheck:
        return cast("sdk.AuthCheck", self._wrapped)
