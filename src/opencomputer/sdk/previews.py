"""Preview URLs: ports of a sandbox under host names of their own."""

from __future__ import annotations

import builtins
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from opencomputer.sdk import answers
from opencomputer.sdk.control_plane import Call, get
from opencomputer.sdk.errors import NotFoundError

if TYPE_CHECKING:
    from opencomputer.sdk.answers import Described, JsonObject
    from opencomputer.sdk.sandbox_link import SandboxLink


class Previews:
    """The calls about a sandbox's previews."""

    def __init__(self, link: SandboxLink) -> None:
        self._link = link

    async def create(
        self, port: int, domain: str | None = None, auth_config: Mapping[str, object] | None = None
    ) -> Described:
        """Put a port on record; the same port again gives the same record."""
        body: JsonObject = {"port": port, "authConfig": dict(auth_config or {})}
        if domain:
            body["domain"] = domain
        return await self._object(Call("POST", self._link.path("preview"), repeatable=True, json=body))

    async def list(self) -> builtins.list[Described]:
        """The records, by port."""
        return answers.json_objects(await self._link.plane.json(get(self._link.path("preview"))))

    async def delete(self, port: int) -> None:
        """Remove a record. Raises `NotFoundError` when there is none."""
        await self._link.plane.send(Call("DELETE", self._link.path("preview", str(port))))

    async def rotate_token(self) -> str:
        """A new token that all ports ask for from now on."""
        answer = await self._object(Call("POST", self._link.path("preview", "rotate")))
        return answers.required_text(answer, "previewAuthToken")

    async def grant(self, port: int, ttl: int) -> Described:
        """A link to one port for so many seconds."""
        return await self._object(Call("POST", self._grants(port), json={"ttl": ttl}))

    async def grants(self, port: int) -> builtins.list[Described]:
        """The grants to a port that have not expired."""
        return answers.json_objects(await self._link.plane.json(get(self._grants(port))))

    async def revoke(self, port: int, grant_id: str) -> None:
        """Take a grant back. Raises `NotFoundError` when there is none."""
        await self._link.plane.send(Call("DELETE", self._link.path("preview", str(port), "grants", grant_id)))

    def _grants(self, port: int) -> str:
        return self._link.path("preview", str(port), "grants")

    async def _object(self, call: Call) -> Described:
        return answers.json_object(await self._link.plane.json(call))


class SandboxPreviews:
    """What a `Sandbox` can do about its previews.

    Every port is reached as `get_preview_domain(port)` without being on record. Where the sandbox asks for a
    token, send it as `Authorization: Bearer` or `X-OC-Preview-Token`; browsers come by a grant.
    """

    _link: SandboxLink
    _preview_auth_token: str
    _description: JsonObject

    @property
    def preview_auth_token(self) -> str:
        """The token of its previews, if it was told one: when it was made, or rotated; "" otherwise."""
        return self._preview_auth_token

    def get_preview_domain(self, port: int) -> str:
        """The host name of a port, "" when the server has no domain for previews."""
        domain = answers.text(self._description, "sandboxDomain")
        return f"{self._link.sandbox_id}-p{port}.{domain}" if domain else ""

    async def create_preview_url(
        self, port: int, domain: str | None = None, auth_config: Mapping[str, object] | None = None
    ) -> Described:
        """Put a port on record, perhaps under a domain of your own: `{hostname, customHostname?, url, …}`."""
        return await Previews(self._link).create(port, domain, auth_config)

    async def list_preview_urls(self) -> list[Described]:
        """The ports that are on record."""
        return await Previews(self._link).list()

    async def delete_preview_url(self, port: int) -> None:
        """Remove the record of a port; one that is not there is no error."""
        with suppress(NotFoundError):
            await Previews(self._link).delete(port)

    async def rotate_preview_auth_token(self) -> str:
        """Make a new token, which all ports ask for from now on; the old one, if there was one, ends now."""
        self._preview_auth_token = await Previews(self._link).rotate_token()
        return self._preview_auth_token

    async def create_preview_grant(self, port: int, ttl: int = 3600) -> Described:
        """A link that lets a browser in to one port for `ttl` seconds: `{id, url, expiresAt, …}`.

        It also works inside of a frame, and for WebSockets. Whoever has the link may use it.
        """
        return await Previews(self._link).grant(port, ttl)

    async def list_preview_grants(self, port: int) -> list[Described]:
        """The grants to a port that have not expired, without their links."""
        return await Previews(self._link).grants(port)

    async def revoke_preview_grant(self, port: int, grant_id: str) -> None:
        """Take a grant back, and end what was opened by it; one that is not there is no error."""
        with suppress(NotFoundError):
            await Previews(self._link).revoke(port, grant_id)
