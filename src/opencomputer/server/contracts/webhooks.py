"""How webhooks leave the server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from opencomputer.server.domain.errors import OpenComputerError


class WebhookFault(OpenComputerError):
    """The receiver could not be reached, or did not answer. The message is for its owner."""

    code = "webhook_failed"


@dataclass(frozen=True)
class WebhookAnswer:
    """`excerpt` is the beginning of the answer, where it is no success. `retry_after`: in seconds."""

    status: int
    excerpt: str = ""
    retry_after: float | None = None


class WebhookSender(Protocol):
    async def check(self, url: str) -> None:
        """Raises DestinationForbidden when nothing may be sent there, as things are now."""
        ...

    async def post(self, url: str, headers: Mapping[str, str], body: bytes) -> WebhookAnswer:
        """Send once, within a time that is the sender's own. Redirects are answers like others.

        Raises DestinationForbidden, and WebhookFault.
        """
        ...
