"""Secret stores and what sandboxes hold of them, in memory; a keyring without keys, and a gate that tells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from opencomputer.server.contracts.secrets import EncryptedValue, Place, SecretStoreFields
from opencomputer.server.domain.egress import EgressRules
from opencomputer.server.domain.errors import Conflict, InvalidInput, NotFound, SecretUnreadable
from opencomputer.server.domain.sandbox import TERMINAL
from opencomputer.server.domain.secrets import (
    Ciphertext,
    Holding,
    Layer,
    Seal,
    Sealing,
    Secret,
    SecretPlace,
    SecretStore,
)
from opencomputer.server.domain.snapshot import SnapshotState
from opencomputer.wire.ids import OrgId, SandboxId, SecretId, SecretStoreId
from tests.support.memory.stores import Tables


class MemorySecretStoreRows:
    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._rows = tables.secret_stores

    async def add(self, store: SecretStore) -> None:
        await self._tables.moment("secret_stores.add")
        self._check_name(store)
        self._rows[store.id] = store

    async def get(self, org_id: OrgId, store_id: SecretStoreId) -> SecretStore | None:
        await self._tables.moment("secret_stores.get")
        return next((row for row in self._there(org_id) if row.id == store_id), None)

    async def list(self, org_id: OrgId) -> Sequence[SecretStore]:
        await self._tables.moment("secret_stores.list")
        return sorted(self._there(org_id), key=lambda row: row.name)

    async def update(
        self, org_id: OrgId, store_id: SecretStoreId, fields: SecretStoreFields, at: datetime
    ) -> SecretStore | None:
        row = await self.get(org_id, store_id)
        if row is None:
            return None
        changed = replace(row, updated_at=at, **fields)
        self._check_name(changed)
        self._rows[store_id] = changed
        return changed

    async def delete(self, org_id: OrgId, store_id: SecretStoreId, at: datetime) -> bool:
        if await self.get(org_id, store_id) is None:
            return False
        for secret in self._tables.secrets.values():
            if secret.store_id == store_id:
                self._tables.deleted.setdefault(secret.id, at)
        self._tables.deleted[store_id] = at
        return True

    def _there(self, org_id: OrgId) -> Sequence[SecretStore]:
        gone = self._tables.deleted
        return [row for row in self._rows.values() if row.org_id == org_id and row.id not in gone]

    def _check_name(self, store: SecretStore) -> None:
        if any(row.name == store.name and row.id != store.id for row in self._there(store.org_id)):
            raise Conflict("the organisation has another secret store of this name", field="name")


class MemorySecretRows:
    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._rows = tables.secrets

    async def set(self, secret: Secret, *, most: int) -> Secret:
        await self._tables.moment("secrets.set")
        gone = self._tables.deleted
        if secret.store_id not in self._tables.secret_stores or secret.store_id in gone:
            raise NotFound("there is no such secret store")
        present = self._rows.get(secret.id)
        same_name = [row for row in self._of(secret.store_id) if row.name == secret.name]
        if present is None and same_name:
            raise Conflict("the secret was set by somebody else just now; try again")
        others = [row for row in self._of(secret.store_id) if row.id not in (secret.id, *gone)]
        if len(others) >= most:
            raise InvalidInput(f"a secret store can have {most} secrets; delete one first", field="name")
        if present is not None and secret.id not in gone:
            secret = replace(secret, created_at=present.created_at)
        gone.pop(secret.id, None)
        self._rows[secret.id] = secret
        return secret

    async def find(self, store_id: SecretStoreId, name: str) -> Secret | None:
        await self._tables.moment("secrets.find")
        return next((row for row in self._of(store_id) if row.name == name), None)

    async def list(self, store_id: SecretStoreId) -> Sequence[Secret]:
        await self._tables.moment("secrets.list")
        there = [row for row in self._of(store_id) if row.id not in self._tables.deleted]
        return sorted(there, key=lambda row: row.name)

    async def delete(self, store_id: SecretStoreId, name: str, at: datetime) -> bool:
        row = await self.find(store_id, name)
        if row is None or row.id in self._tables.deleted:
            return False
        self._tables.deleted[row.id] = at
        return True

    async def values(self) -> Sequence[EncryptedValue]:
        await self._tables.moment("secrets.values")
        stores = self._tables.secret_stores
        return [
            EncryptedValue(
                row.id, SecretPlace(stores[row.store_id].org_id, row.store_id, row.id), row.ciphertext
            )
            for row in sorted(self._rows.values(), key=lambda r: r.id)
        ]

    async def recrypt(self, value_id: str, before: Ciphertext, after: Ciphertext) -> bool:
        await self._tables.moment("secrets.recrypt")
        row = self._rows.get(SecretId(value_id))
        if row is None or row.ciphertext != before:
            return False
        self._rows[row.id] = replace(row, ciphertext=after)
        return True

    async def remove(self, value_id: str) -> bool:
        await self._tables.moment("secrets.remove")
        self._tables.deleted.pop(value_id, None)
        return self._rows.pop(SecretId(value_id), None) is not None

    def _of(self, store_id: SecretStoreId) -> Sequence[Secret]:
        return [row for row in self._rows.values() if row.store_id == store_id]


class MemoryHoldingRows:
    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    async def layers(self, org_id: OrgId, names: Sequence[str]) -> Sequence[Layer]:
        await self._tables.moment("holdings.layers")
        rows, gone = self._tables.secret_stores.values(), self._tables.deleted
        stores = [row for row in rows if row.org_id == org_id and row.name in names and row.id not in gone]
        stores.sort(key=lambda store: names.index(store.name))
        return [Layer(store, self._secrets_of(store.id)) for store in stores]

    def _secrets_of(self, store_id: SecretStoreId) -> Sequence[Secret]:
        return sorted(
            (row for row in self._of(store_id) if row.id not in self._tables.deleted),
            key=lambda row: row.name,
        )

    def _of(self, store_id: SecretStoreId) -> Sequence[Secret]:
        return [row for row in self._tables.secrets.values() if row.store_id == store_id]

    async def seals(self, sandbox_id: SandboxId) -> Sequence[Seal]:
        await self._tables.moment("holdings.seals")
        return sorted(self._held(sandbox_id).seals, key=lambda seal: (seal.name, seal.token))

    def _held(self, sandbox_id: SandboxId) -> Sealing:
        return self._tables.held.get(sandbox_id, Sealing())

    async def holding(self, sandbox_id: SandboxId) -> Holding:
        held = self._held(sandbox_id)
        seals = await self.seals(sandbox_id)
        stores = self._tables.secret_stores
        return Holding(
            [stores[store_id] for store_id in held.store_ids if store_id in stores],
            seals,
            {
                seal.secret_id: self._tables.secrets[seal.secret_id]
                for seal in seals
                if seal.secret_id is not None and seal.secret_id in self._tables.secrets
            },
        )

    async def holders(self, store_id: SecretStoreId, name: str | None = None) -> Sequence[SandboxId]:
        await self._tables.moment("holdings.holders")
        ids = {
            row.id for row in self._tables.secrets.values() if (row.store_id, row.name) == (store_id, name)
        }
        return sorted(
            sandbox_id
            for sandbox_id, held in self._live()
            if (name is None and store_id in held.store_ids)
            or any(seal.secret_id in ids for seal in held.seals)
        )

    def _live(self) -> Sequence[tuple[SandboxId, Sealing]]:
        rows = self._tables.sandboxes
        return [each for each in self._tables.held.items() if rows[each[0]].state not in TERMINAL]

    async def sweep(self, before: datetime) -> int:
        await self._tables.moment("holdings.sweep")
        tables = self._tables
        live = {sandbox_id for sandbox_id, _ in self._live()}
        saved = {row.sandbox_id for row in tables.snapshots.values() if row.state is not SnapshotState.FAILED}
        for sandbox_id in [each for each in tables.held if each not in live | saved]:
            del tables.held[sandbox_id]
        wanted = {seal.secret_id for _, held in self._live() for seal in held.seals}
        over = [
            row.id
            for row in tables.secrets.values()
            if row.id not in wanted and row.id in tables.deleted and tables.deleted[row.id] < before
        ]
        for secret_id in over:
            del tables.secrets[secret_id], tables.deleted[secret_id]
        kept = {store_id for _, held in self._live() for store_id in held.store_ids}
        kept |= {row.store_id for row in tables.secrets.values()}
        for store_id in [each for each in tables.secret_stores if each in tables.deleted]:
            if store_id not in kept and tables.deleted[store_id] < before:
                del tables.secret_stores[store_id], tables.deleted[store_id]
        return len(over)


class PlainKeyring:
    """Encrypts nothing, but opens things only in their place, and only with the keys it has."""

    def __init__(self) -> None:
        self.newest = 1
        self.versions: list[int] = [1]

    def encrypt(self, value: str, place: Place) -> Ciphertext:
        return Ciphertext(self.newest, place.associated_data + b"\0\0" + value.encode())

    def decrypt(self, ciphertext: Ciphertext, place: Place) -> str:
        where, _, value = ciphertext.data.partition(b"\0\0")
        if where != place.associated_data or ciphertext.key_version not in self.versions:
            raise SecretUnreadable
        return value.decode()

    def add_key(self) -> int:
        self.newest += 1
        self.versions.append(self.newest)
        return self.newest

    def drop(self, versions: Sequence[int]) -> None:
        self.versions = [each for each in self.versions if each not in versions or each == self.newest]


@dataclass
class RecordingGate:
    """Implements EgressGate: what is in force by address, and everything that was told, in order."""

    rules: dict[str, EgressRules] = field(default_factory=dict[str, EgressRules])
    told: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])

    def admit(self, address: str, rules: EgressRules) -> None:
        self.rules[address] = rules
        self.told.append(("admit", address))

    def dismiss(self, address: str) -> None:
        self.rules.pop(address, None)
        self.told.append(("dismiss", address))

    def of(self, sandbox_id: SandboxId) -> EgressRules:
        """The rules of a sandbox that has one machine."""
        (found,) = (each for each in self.rules.values() if each.sandbox_id == sandbox_id)
        return found
