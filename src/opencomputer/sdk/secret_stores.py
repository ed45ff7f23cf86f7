"""Secret stores: credentials that sandboxes can use and never see."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import TYPE_CHECKING

from opencomputer.sdk import answers
from opencomputer.sdk.answers import Described, JsonObject
from opencomputer.sdk.control_plane import Call, ControlPlane, get
from opencomputer.sdk.endpoint import Endpoint
from opencomputer.sdk.errors import NotFoundError
from opencomputer.sdk.paths import path_of
from opencomputer.sdk.texts import listed

if TYPE_CHECKING:
    from opencomputer.sdk.sandbox_link import SandboxLink


class SecretStore:
    """The organisation's secret stores. Values go in and are never given out again.

    A sandbox that is created with a store has, for each of its secrets, a variable with a token of its own.
    On the way to hosts that are permitted, the token becomes the value. Every method takes the key and the
    address of the server, which default to `OPENCOMPUTER_API_KEY` and `OPENCOMPUTER_API_URL`.
    """

    @staticmethod
    async def create(
        name: str,
        egress_allowlist: Sequence[str] | None = None,
        api_key: str | None = None,
        api_url: str | None = None,
    ) -> Described:
        """Make an empty store. Sandboxes with it reach only the hosts of the list, or any if there is none.

        Raises `ConflictError` when the organisation has one of this name.
        """
        body: JsonObject = {
            "name": name,
            "egressAllowlist": listed(egress_allowlist or (), "egress_allowlist"),
        }
        return await _object(Call("POST", "/secret-stores", json=body), api_key, api_url)

    @staticmethod
    async def list(api_key: str | None = None, api_url: str | None = None) -> builtins.list[Described]:
        """All of them, by name."""
        return answers.json_objects(await _sent(get("/secret-stores"), api_key, api_url))

    @staticmethod
    async def get(store_id: str, api_key: str | None = None, api_url: str | None = None) -> Described:
        """One of them. Raises `NotFoundError`."""
        return await _object(get(_path(store_id)), api_key, api_url)

    @staticmethod
    async def update(
        store_id: str,
        name: str = "",
        egress_allowlist: Sequence[str] | None = None,
        api_key: str | None = None,
        api_url: str | None = None,
    ) -> Described:
        """Change its name, unless that is empty, and its list, unless that is None: an empty one clears it.

        Running sandboxes get the new list at once.
        """
        body: JsonObject = {"name": name}
        if egress_allowlist is not None:
            body["egressAllowlist"] = listed(egress_allowlist, "egress_allowlist")
        return await _object(Call("PUT", _path(store_id), repeatable=True, json=body), api_key, api_url)

    @staticmethod
    async def delete(store_id: str, api_key: str | None = None, api_url: str | None = None) -> None:
        """Delete a store and its secrets. Sandboxes that have it keep its use until they end.

        Raises `NotFoundError`.
        """
        await _sent(Call("DELETE", _path(store_id)), api_key, api_url)

    @staticmethod
    async def set_secret(
        store_id: str,
        name: str,
        value: str,
        allowed_hosts: Sequence[str] | None = None,
        api_key: str | None = None,
        api_url: str | None = None,
    ) -> None:
        """Set a secret, or replace its value and hosts: running sandboxes use the new ones at once.

        Without hosts it may go wherever its sandboxes may connect to.
        """
        body: JsonObject = {"value": value, "allowedHosts": listed(allowed_hosts or (), "allowed_hosts")}
        call = Call("PUT", _path(store_id, "secrets", name), repeatable=True, json=body)
        await _sent(call, api_key, api_url)

    @staticmethod
    async def list_secrets(
        store_id: str, api_key: str | None = None, api_url: str | None = None
    ) -> builtins.list[Described]:
        """Its secrets by name, with their hosts and without their values."""
        return answers.json_objects(await _sent(get(_path(store_id, "secrets")), api_key, api_url))

    @staticmethod
    async def delete_secret(
        store_id: str, name: str, api_key: str | None = None, api_url: str | None = None
    ) -> None:
        """Delete a secret; one that is not there is no error."""
        try:
            await _sent(Call("DELETE", _path(store_id, "secrets", name)), api_key, api_url)
        except NotFoundError:
            return


class SandboxHosts:
    """What a `Sandbox` can say about where it may connect to."""

    _link: SandboxLink

    async def get_allowed_hosts(self) -> Described:
        """Its stores, the hosts it may reach (none: any), and those of each secret that has some."""
        return answers.json_object(await self._link.plane.json(get(self._link.path("allowed-hosts"))))


async def _object(call: Call, api_key: str | None, api_url: str | None) -> Described:
    return answers.json_object(await _sent(call, api_key, api_url))


async def _sent(call: Call, api_key: str | None, api_url: str | None) -> object:
    plane = ControlPlane(Endpoint.resolve(api_key, api_url))
    try:
        if call.method == "DELETE":
            await plane.send(call)
            return None
        return await plane.json(call)
    finally:
        await plane.aclose()


def _path(*parts: str) -> str:
    return path_of("secret-stores", *parts)
