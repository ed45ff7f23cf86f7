"""The use cases of `/api/secret-stores`: what organisations keep for their sandboxes, without showing it."""

from __future__ import annotations

from collections.abc import Sequence

from opencomputer.server.contracts.clock import Clock
from opencomputer.server.contracts.secrets import Keyring, SecretStoreFields, SecretTables
from opencomputer.server.domain import naming
from opencomputer.server.domain.egress import check_patterns
from opencomputer.server.domain.errors import Conflict, InvalidInput, NotFound
from opencomputer.server.domain.sandbox import Sandbox
from opencomputer.server.domain.secrets import (
    MAX_PATTERNS,
    MAX_SECRETS,
    Secret,
    SecretPlace,
    SecretStore,
    check_secret_name,
    check_store_name,
    check_value,
)
from opencomputer.server.services.sandboxes.egress import Egress, Refreshed
from opencomputer.wire.ids import OrgId, SecretStoreId


class SecretStores:
    """Values come in here and leave encrypted. What changes reaches the sandboxes that run, at once."""

    def __init__(self, tables: SecretTables, keyring: Keyring, egress: Egress, clock: Clock) -> None:
        self._stores = tables.stores
        self._secrets = tables.secrets
        self._holdings = tables.holdings
        self._keyring = keyring
        self._egress = egress
        self._clock = clock

    async def create(self, org_id: OrgId, name: str, egress_allowlist: Sequence[str]) -> SecretStore:
        """Raises InvalidInput, and Conflict when the organisation has one of this name."""
        check_store_name(name)
        now = self._clock.now()
        allowlist = checked_hosts(egress_allowlist, "egressAllowlist")
        store = SecretStore(naming.new_secret_store_id(), org_id, name, allowlist, now, now)
        await self._stores.add(store)
        return store

    async def list(self, org_id: OrgId) -> Sequence[SecretStore]:
        """By name."""
        return await self._stores.list(org_id)

    async def get(self, org_id: OrgId, store_id: SecretStoreId) -> SecretStore:
        store = await self._stores.get(org_id, store_id)
        if store is None:
            raise NotFound("there is no such secret store")
        return store

    async def update(
        self,
        org_id: OrgId,
        store_id: SecretStoreId,
        *,
        name: str | None,
        egress_allowlist: Sequence[str] | None,
    ) -> SecretStore:
        """Change what is not None. Sandboxes that hold the store get its list at once."""
        fields: SecretStoreFields = {}
        if name is not None:
            check_store_name(name)
            fields["name"] = name
        if egress_allowlist is not None:
            fields["egress_allowlist"] = checked_hosts(egress_allowlist, "egressAllowlist")
        if not fields:
            return await self.get(org_id, store_id)
        store = await self._stores.update(org_id, store_id, fields, self._clock.now())
        if store is None:
            raise NotFound("there is no such secret store")
        if "egress_allowlist" in fields:
            await self._egress.refresh(await self._holdings.holders(store_id))
        return store

    async def delete(self, org_id: OrgId, store_id: SecretStoreId) -> None:
        """Delete a store and its secrets. Sandboxes that hold them keep their use until they end."""
        if not await self._stores.delete(org_id, store_id, self._clock.now()):
            raise NotFound("there is no such secret store")

    async def delete_attached(self, sandbox: Sandbox) -> None:
        """Delete the store of a sandbox that has ended, unless another sandbox holds it, too."""
        holding = await self._holdings.holding(sandbox.id)
        if not holding.stores:
            return
        store = holding.stores[-1]
        if not await self._holdings.holders(store.id):
            await self._stores.delete(sandbox.org_id, store.id, self._clock.now())

    async def set_secret(
        self, org_id: OrgId, store_id: SecretStoreId, name: str, value: str, hosts: Sequence[str]
    ) -> Refreshed:
        """Set a secret, or replace value and hosts of the one of this name. Tells whom that reached."""
        check_secret_name(name)
        check_value(value)
        allowed = checked_hosts(hosts, "allowedHosts")
        store = await self.get(org_id, store_id)
        try:
            await self._write(store, name, value, allowed)
        except Conflict:
            # Somebody set it for the first time just now: it is there to be replaced.
            await self._write(store, name, value, allowed)
        return await self._egress.refresh(await self._holdings.holders(store_id, name))

    async def _write(self, store: SecretStore, name: str, value: str, hosts: tuple[str, ...]) -> None:
        present = await self._secrets.find(store.id, name)
        secret_id = naming.new_secret_id() if present is None else present.id
        ciphertext = self._keyring.encrypt(value, SecretPlace(store.org_id, store.id, secret_id))
        now = self._clock.now()
        await self._secrets.set(
            Secret(secret_id, store.id, name, ciphertext, hosts, now, now), most=MAX_SECRETS
        )

    async def list_secrets(self, org_id: OrgId, store_id: SecretStoreId) -> Sequence[Secret]:
        """By name, and never with their values."""
        return await self._secrets.list((await self.get(org_id, store_id)).id)

    async def delete_secret(self, org_id: OrgId, store_id: SecretStoreId, name: str) -> None:
        """Sandboxes that hold it keep its use until they end."""
        await self.get(org_id, store_id)
        if not await self._secrets.delete(store_id, name, self._clock.now()):
            raise NotFound("there is no secret of this name in the store")


def checked_hosts(patterns: Sequence[str], field: str) -> tuple[str, ...]:
    """Patterns of hosts as they are kept. Raises InvalidInput naming the field."""
    if len(patterns) > MAX_PATTERNS:
        raise InvalidInput(f"{field}: must have at most {MAX_PATTERNS} hosts", field=field)
    return check_patterns(patterns, field)
