# Generated from src/opencomputer/sdk/usage.py by scripts/generate_blocking.py
"""The blocking twins of `opencomputer.sdk.usage`; see there."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from opencomputer.blocking.api_client import ApiClient
from opencomputer.blocking.support.twin import Twin
from opencomputer.sdk import usage as sdk

if TYPE_CHECKING:
    from collections.abc import Mapping

    from opencomputer.sdk.usage_records import (
        SandboxUsageResponse,
        UsageBySandboxResponse,
        UsageByTagResponse,
    )


class Usage(ApiClient):
    """Memory and disk that sandboxes used, in GiB-seconds.

    Periods are dates (`2026-04-01`) or RFC 3339 times. A `filter` such as `{"tag:team": "a,b"}` keeps what
    has one of these values, and of several tags all; an empty value keeps what does not have the tag. `sort`
    is "-memoryGbSeconds" or "-diskOverageGbSeconds". A page has 50 items unless `limit` (at most 500) says
    otherwise; the `next_cursor` of one is the `cursor` of the next.
    """

    def __init__(self, api_key: str | None = None, api_url: str | None = None) -> None:
        Twin.__init__(self, sdk.Usage(api_key, api_url))

    def by_sandbox(
        self,
        *,
        from_: str | None = None,
        to: str | None = None,
        filter: Mapping[str, str] | None = None,
        sort: str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> UsageBySandboxResponse:
        """The usage of each sandbox, by default of the last 30 days; 90 days are the longest period."""
        return self._run(
            self._original.by_sandbox(
                from_=from_, to=to, filter=filter, sort=sort, limit=limit, cursor=cursor
            )
        )

    def by_tag(
        self,
        tag_key: str,
        *,
        from_: str | None = None,
        to: str | None = None,
        filter: Mapping[str, str] | None = None,
        sort: str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> UsageByTagResponse:
        """The usage for each value of a tag, and that of sandboxes without it; otherwise as `by_sandbox`."""
        return self._run(
            self._original.by_tag(
                tag_key, from_=from_, to=to, filter=filter, sort=sort, limit=limit, cursor=cursor
            )
        )

    def for_sandbox(
        self, sandbox_id: str, *, from_: str | None = None, to: str | None = None
    ) -> SandboxUsageResponse:
        """One sandbox minute by minute, by default the last hour; 30 days are the longest period."""
        return self._run(self._original.for_sandbox(sandbox_id, from_=from_, to=to))

    @property
    def _original(self) -> sdk.Usage:
        return cast("sdk.Usage", self._wrapped)
