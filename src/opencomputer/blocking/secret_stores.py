# Generated from src/opencomputer/sdk/secret_stores.py by scripts/generate_blocking.py
"""The blocking twins of `opencomputer.sdk.secret_stores`; see there."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from opencomputer.blocking.support.loop import run
from opencomputer.blocking.support.twin import Twin
from opencomputer.sdk import secret_stores as sdk

if TYPE_CHECKING:
    import builtins
    from collections.abc import Sequence

    from opencomputer.sdk.answers import Described


class SecretStore(Twin):
    """The organisation's secret stores. Values go in and are never given out again.

    A sandbox that is created with a store has, for each of its secrets, a variable with a token of its own.
    On the way to hosts that are permitted, the token becomes the value. Every method takes the key and the
    address of the server, which default to `OPENCOMPUTER_API_KEY` and `OPENCOMPUTER_API_URL`.
    """

    @staticmethod
    def create(
        name: str,
        egress_allowlist: Sequence[str] | None = None,
        api_key: str | None = None,
        api_url: str | None = None,
    ) -> Described:
        """Make an empty store. Sandboxes with it reach only the hosts of the list, or any if there is none.

        Raises `ConflictError` when the organisation has one of this name.
        """
        return run(sdk.SecretStore.create(name, egress_allowlist, api_key, api_url))

    @staticmethod
    def list(api_key: str | None = None, api_url: str | None = None) -> builtins.list[Described]:
        """All of them, by name."""
        return run(sdk.SecretStore.list(api_key, api_url))

    @staticmethod
    def get(store_id: str, api_key: str | None = None, api_url: str | None = None) -> Described:
        """One of them. Raises `NotFoundError`."""
        return run(sdk.SecretStore.get(store_id, api_key, api_url))

    @staticmethod
    def update(
        store_id: str,
        name: str = "",
        egress_allowlist: Sequence[str] | None = None,
        api_key: str | None = None,
        api_url: str | None = None,
    ) -> Described:
        """Change its name, unless that is empty, and its list, unless that is None: an empty one clears it.

        Running sandboxes get the new list at once.
        """
        return run(sdk.SecretStore.update(store_id, name, egress_allowlist, api_key, api_url))

    @staticmethod
    def delete(store_id: str, api_key: str | None = None, api_url: str | None = None) -> None:
        """Delete a store and its secrets. Sandboxes that have it keep its use until they end.

        Raises `NotFoundError`.
        """
        run(sdk.SecretStore.delete(store_id, api_key, api_url))

    @staticmethod
    def set_secret(
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
        run(sdk.SecretStore.set_secret(store_id, name, value, allowed_hosts, api_key, api_url))

    @staticmethod
    def list_secrets(
        store_id: str, api_key: str | None = None, api_url: str | None = None
    ) -> builtins.list[Described]:
        """Its secrets by name, with their hosts and without their values."""
        return run(sdk.SecretStore.list_secrets(store_id, api_key, api_url))

    @staticmethod
    def delete_secret(
        store_id: str, name: str, api_key: str | None = None, api_url: str | None = None
    ) -> None:
        """Delete a secret; one that is not there is no error."""
        run(sdk.SecretStore.delete_secret(store_id, name, api_key, api_url))

    @property
    def _original(self) -> sdk.SecretStore:
        return cast("sdk.SecretStore", self._wrapped)


class SandboxHosts(Twin):
    """What a `Sandbox` can say about where it may connect to."""

    def get_allowed_hosts(self) -> Described:
        """Its stores, the hosts it may reach (none: any), and those of each secret that has some."""
        return self._run(self._original.get_allowed_hosts())

    @property
    def _original(self) -> sdk.SandboxHosts:
        return cast("sdk.SandboxHosts", self._wrapped)
