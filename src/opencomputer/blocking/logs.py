# Generated from src/opencomputer/sdk/logs.py by scripts/generate_blocking.py
"""The blocking twins of `opencomputer.sdk.logs`; see there."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from opencomputer.blocking.support.stream import Stream
from opencomputer.blocking.support.twin import Twin

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime, timedelta

    from opencomputer.sdk import logs as sdk
    from opencomputer.sdk.logs import LogLine


class SandboxLogs(Twin):
    """The part of a `Sandbox` that is about its log."""

    def logs(
        self,
        *,
        tail: bool = True,
        since: datetime | timedelta | str | None = None,
        until: datetime | str | None = None,
        text: str = "",
        sources: Sequence[str] = (),
        limit: int = 0,
    ) -> Stream[LogLine]:
        """What its commands, sessions and agents wrote, and what was added below /var/log, oldest first.

        With `tail` it goes on with what comes, over lost connections and restarts of the server, until the
        sandbox is killed. Of what there is, the newest `limit` lines (1000 when 0). `since` may be a time
        ago; `text` has to be in the line. Reading does not wake a sandbox that sleeps.
        """
        return Stream(
            self._original.logs(tail=tail, since=since, until=until, text=text, sources=sources, limit=limit)
        )

    @property
    def _original(self) -> sdk.SandboxLogs:
        return cast("sdk.SandboxLogs", self._wrapped)
