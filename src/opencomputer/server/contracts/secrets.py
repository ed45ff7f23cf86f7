"""Where secrets are kept, and what sandboxes hold of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, TypedDict

from opencomputer.server.domain.secrets import (
    Ciphertext,
    Holding,
    Layer,
    Seal,
    Secret,
    SecretStore,
)
from opencomputer.wire.ids import OrgId, SandboxId, SecretStoreId


class KeyringDamaged(Exception):
    """What should be a keyring is none. The message says what is wrong, and has nothing of any key."""


class KeyringMissing(KeyringDamaged):
    """Secrets are stored, and the keys that open them are not there."""


class Place(Protocol):
    """Where a value belongs, whatever it is: no two values have the same."""

    @property
    def associated_data(self) -> bytes: ...


class Keyring(Protocol):
    """Encrypts values with the newest of several keys, and decrypts those of every key it has.

    Authenticated: what was changed, or taken to another place, does not open.
    """

    def encrypt(self, value: str, place: Place) -> Ciphertext: ...

    def decrypt(self, ciphertext: Ciphertext, place: Place) -> str:
        """Raises SecretUnreadable; its message says which key is missing, and nothing of the value."""
        ...


class KeyringUpkeep(Keyring, Protocol):
    """What the operator does with a keyring."""

    @property
    def newest(self) -> int: ...

    def add_key(self) -> int:
        """Make a new key, which encrypts from now on, here and in every process with this keyring."""
        ...

    def drop(self, versions: Sequence[int]) -> None:
        """Forget keys for good. The newest stays."""
        ...

    @property
    def versions(self) -> Sequence[int]: ...


@dataclass(frozen=True)
class EncryptedValue:
    """A stored value that the keyring opens in its place."""

    id: str
    place: Place
    ciphertext: Ciphertext


class EncryptedRows(Protocol):
    """Any table with encrypted values, as the change of keys sees it."""

    async def values(self) -> Sequence[EncryptedValue]:
        """Of all organisations, deleted ones included."""
        ...

    async def recrypt(self, value_id: str, before: Ciphertext, after: Ciphertext) -> bool:
        """Compare-and-set. False: it is not `before` any more."""
        ...

    async def remove(self, value_id: str) -> bool:
        """Remove a value for good, whoever uses it: for those that nobody can read any more."""
        ...


class SecretStoreFields(TypedDict, total=False):
    """What may change about a store. What is not named stays."""

    name: str
    egress_allowlist: tuple[str, ...]


class SecretStoreRows(Protocol):
    """Stores as organisations see them: those that were deleted are not there."""

    async def add(self, store: SecretStore) -> None:
        """Raises Conflict when the organisation has one of this name."""
        ...

    async def get(self, org_id: OrgId, store_id: SecretStoreId) -> SecretStore | None: ...

    async def list(self, org_id: OrgId) -> Sequence[SecretStore]:
        """By name."""
        ...

    async def update(
        self, org_id: OrgId, store_id: SecretStoreId, fields: SecretStoreFields, at: datetime
    ) -> SecretStore | None:
        """None: there is no such store. Raises Conflict as `add`."""
        ...

    async def delete(self, org_id: OrgId, store_id: SecretStoreId, at: datetime) -> bool:
        """Delete a store and its secrets. Sandboxes that hold them keep them."""
        ...


class SecretRows(EncryptedRows, Protocol):
    """Secrets of stores that are there. The caller has checked whose those are."""

    async def set(self, secret: Secret, *, most: int) -> Secret:
        """Insert a secret, or replace the one of this name in the store, which keeps its id and age.

        The caller's `secret.id` counts only for a new one; so it first asks `find`. Raises NotFound when the
        store is gone, Conflict when another one of this name came in between, and InvalidInput when the store
        would have more than `most`.
        """
        ...

    async def find(self, store_id: SecretStoreId, name: str) -> Secret | None:
        """Also one that was deleted and is still held: setting it anew gives it back to its holders."""
        ...

    async def list(self, store_id: SecretStoreId) -> Sequence[Secret]:
        """By name."""
        ...

    async def delete(self, store_id: SecretStoreId, name: str, at: datetime) -> bool: ...


class HoldingRows(Protocol):
    """What sandboxes hold of stores; `SandboxStore.add` writes it down."""

    async def layers(self, org_id: OrgId, names: Sequence[str]) -> Sequence[Layer]:
        """The stores of these names that are there, in this order, each with its secrets."""
        ...

    async def seals(self, sandbox_id: SandboxId) -> Sequence[Seal]: ...

    async def holding(self, sandbox_id: SandboxId) -> Holding: ...

    async def holders(self, store_id: SecretStoreId, name: str | None = None) -> Sequence[SandboxId]:
        """Sandboxes, not stopped, that hold the store; with `name`, its secret of this name."""
        ...

    async def sweep(self, before: datetime) -> int:
        """Remove what was deleted `before`, and no sandbox that is not stopped holds; and what stopped
        sandboxes held, once nothing can be made of them any more. Returns the number of secrets removed."""
        ...


@dataclass(frozen=True)
class SecretTables:
    """Everything about secrets that is kept."""

    stores: SecretStoreRows
    secrets: SecretRows
    holdings: HoldingRows
