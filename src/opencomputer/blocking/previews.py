# Generated from src/opencomputer/sdk/previews.py by scripts/generate_blocking.py
"""The blocking twins of `opencomputer.sdk.previews`; see there."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from opencomputer.blocking.support.twin import Twin

if TYPE_CHECKING:
    from collections.abc import Mapping

    from opencomputer.sdk import previews as sdk
    from opencomputer.sdk.answers import Described


class SandboxPreviews(Twin):
    """What a `Sandbox` can do about its previews.

    Every port is reached as `get_preview_domain(port)` without being on record. Where the sandbox asks for a
    token, send it as `Authorization: Bearer` or `X-OC-Preview-Token`; browsers come by a grant.
    """

    @property
    def preview_auth_token(self) -> str:
        """The token of its previews, if it was told one: when it was made, or rotated; "" otherwise."""
        return self._original.preview_auth_token

    def get_preview_domain(self, port: int) -> str:
        """The host name of a port, "" when the server has no domain for previews."""
        return self._run_there(lambda: self._original.get_preview_domain(port))

    def create_preview_url(
        self, port: int, domain: str | None = None, auth_config: Mapping[str, object] | None = None
    ) -> Described:
        """Put a port on record, perhaps under a domain of your own: `{hostname, customHostname?, url, …}`."""
        return self._run(self._original.create_preview_url(port, domain, auth_config))

    def list_preview_urls(self) -> list[Described]:
        """The ports that are on record."""
        return self._run(self._original.list_preview_urls())

    def delete_preview_url(self, port: int) -> None:
        """Remove the record of a port; one that is not there is no error."""
        self._run(self._original.delete_preview_url(port))

    def rotate_preview_auth_token(self) -> str:
        """Make a new token, which all ports ask for from now on; the old one, if there was one, ends now."""
        return self._run(self._original.rotate_preview_auth_token())

    def create_preview_grant(self, port: int, ttl: int = 3600) -> Described:
        """A link that lets a browser in to one port for `ttl` seconds: `{id, url, expiresAt, …}`.

        It also works inside of a frame, and for WebSockets. Whoever has the link may use it.
        """
        return self._run(self._original.create_preview_grant(port, ttl))

    def list_preview_grants(self, port: int) -> list[Described]:
        """The grants to a port that have not expired, without their links."""
        return self._run(self._original.list_preview_grants(port))

    def revoke_preview_grant(self, port: int, grant_id: str) -> None:
        """Take a grant back, and end what was opened by it; one that is not there is no error."""
        self._run(self._original.revoke_preview_grant(port, grant_id))

    @property
    def _original(self) -> sdk.SandboxPreviews:
        return cast("sdk.SandboxPreviews", self._wrapped)
