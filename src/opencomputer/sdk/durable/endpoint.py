"""Where the server's durable sessions are, and which key to show it."""

from __future__ import annotations

import os
from dataclasses import dataclass

from opencomputer.sdk.endpoint import check_key

DEFAULT_BASE_URL = "https://api.opencomputer.dev/v3"
_VERSION = "/v3"


@dataclass(frozen=True)
class DurableEndpoint:
    """`base` is the root of all paths and ends in `/v3`; `token` an API key or a session's client token."""

    base: str
    token: str

    def __post_init__(self) -> None:
        check_key(self.token)

    @classmethod
    def resolve(cls, api_key: str | None = None, base_url: str | None = None) -> DurableEndpoint:
        """Take each value from its argument, else from the environment, else its default.

        A server has one key for everything: `OPENCOMPUTER_API_KEY`. Its address may be given as its root, or
        with `/v3`; the variables are `OPENCOMPUTER_SESSIONS_URL`, `SESSIONS_API_URL` and, as for sandboxes,
        `OPENCOMPUTER_API_URL`. No key is not an error here: the server answers that one is needed.
        """
        key = api_key or os.environ.get("OPENCOMPUTER_API_KEY") or ""
        return cls(base=durable_base(base_url or _configured()), token=key)


def durable_base(url: str) -> str:
    """The root of `/v3` on a server whose root, `/api` or `/v3` this is."""
    root = url.rstrip("/")
    return root if root.endswith(_VERSION) else f"{root.removesuffix('/api')}{_VERSION}"


def _configured() -> str:
    names = ("OPENCOMPUTER_SESSIONS_URL", "SESSIONS_API_URL", "OPENCOMPUTER_API_URL")
    return next((url for name in names if (url := os.environ.get(name))), DEFAULT_BASE_URL)
