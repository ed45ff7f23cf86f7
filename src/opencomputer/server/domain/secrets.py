"""Secret stores: what an organisation keeps in them, and what of it a sandbox gets (behaviour section 22)."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from opencomputer.server.domain import naming
from opencomputer.server.domain.errors import InvalidInput
from opencomputer.wire.ids import OrgId, SecretId, SecretStoreId

MAX_SECRETS = 100
"""Per store."""
MAX_VALUE_BYTES = 64 * 1024
MAX_PATTERNS = 500
"""Per list of hosts."""

_STORE_NAME = re.compile(r"[^\x00-\x1f\x7f]{1,128}")
_SECRET_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")


@dataclass(frozen=True)
class SecretStore:
    """A named set of secrets and the hosts its sandboxes may reach. `egress_allowlist` empty: any."""

    id: SecretStoreId
    org_id: OrgId
    name: str
    egress_allowlist: tuple[str, ...]
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True)
class Ciphertext:
    """An encrypted value, and which of the keyring's keys opens it."""

    key_version: int
    data: bytes = field(repr=False)


@dataclass(frozen=True)
class Secret:
    """One entry of a store. `hosts` empty: its value may go wherever the sandbox may."""

    id: SecretId
    store_id: SecretStoreId
    name: str
    ciphertext: Ciphertext
    hosts: tuple[str, ...]
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True)
class SecretPlace:
    """Where a value belongs. A ciphertext opens in this place only."""

    org_id: OrgId
    store_id: SecretStoreId
    secret_id: SecretId

    @property
    def associated_data(self) -> bytes:
        return "\0".join(("secret", self.org_id, self.store_id, self.secret_id)).encode()


@dataclass(frozen=True)
class Seal:
    """A token in a sandbox, and the secret it stands for. Never a value.

    `inherited`: the sandbox's memory was copied with it, from the one it was made of; no variable has it. It
    may stand for nothing here (None), and for something again in a copy of this sandbox.
    """

    token: str
    name: str
    secret_id: SecretId | None
    inherited: bool = False


@dataclass(frozen=True)
class Layer:
    """A store as one layer of what a sandbox gets."""

    store: SecretStore
    secrets: Sequence[Secret]


@dataclass(frozen=True)
class Sealing:
    """What a new sandbox holds of its stores, weakest first, and what its maker should know about that."""

    store_ids: tuple[SecretStoreId, ...] = ()
    seals: tuple[Seal, ...] = ()
    warnings: tuple[str, ...] = ()

    def unhidden(self, variables: Mapping[str, str]) -> Mapping[str, str]:
        """Variables of an image or a template without those that a secret takes the place of."""
        names = {each.name for each in self.seals if not each.inherited}
        return {name: value for name, value in variables.items() if name not in names}


NOTHING_SEALED = Sealing()


@dataclass(frozen=True)
class Holding:
    """What a sandbox holds, as it is now: stores and secrets that were deleted since are still there."""

    stores: Sequence[SecretStore] = ()
    seals: Sequence[Seal] = ()
    secrets: Mapping[SecretId, Secret] = field(default_factory=dict[SecretId, Secret])

    def secret_of(self, seal: Seal) -> Secret | None:
        return None if seal.secret_id is None else self.secrets.get(seal.secret_id)

    @property
    def allowlist(self) -> tuple[str, ...]:
        """All lists of the stores together: one without a list neither widens nor narrows that."""
        return united(store.egress_allowlist for store in self.stores)


def united(lists: Iterable[Sequence[str]]) -> tuple[str, ...]:
    """Every pattern of every list, each once."""
    return tuple(dict.fromkeys(pattern for each in lists for pattern in each))


def check_store_name(name: str) -> None:
    if not name.strip() or not _STORE_NAME.fullmatch(name):
        raise InvalidInput("name must have 1 to 128 characters, without control characters", field="name")


def check_secret_name(name: str) -> None:
    if not _SECRET_NAME.fullmatch(name):
        raise InvalidInput(
            "the name of a secret becomes a variable's: letters, digits and _, not beginning with a digit, "
            "at most 128",
            field="name",
        )


def check_value(value: str) -> None:
    """Raises InvalidInput; the message never has anything of the value."""
    if not value:
        raise InvalidInput("value: must not be empty", field="value")
    if "\0" in value:
        raise InvalidInput("value: must not contain NUL", field="value")
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        # From the fault itself: its cause would carry the value along.
        raise InvalidInput("value: is not valid Unicode text", field="value") from None
    if size > MAX_VALUE_BYTES:
        raise InvalidInput(f"value: must be at most {MAX_VALUE_BYTES} bytes", field="value")


def chained(inherited: Sequence[str], named: str | None) -> tuple[str, ...]:
    """The names of a sandbox's stores, weakest first, each once: one that is named again counts there."""
    if named is None:
        return tuple(inherited)
    return (*(name for name in inherited if name != named), named)


def seal(layers: Sequence[Layer], plain: Collection[str], copied: Sequence[Seal]) -> Sealing:
    """Give a new sandbox tokens of its own. Pure but for the tokens' randomness.

    `layers` come weakest first. `plain` are variables that the user gives as they are: they win. `copied` are
    the tokens that are in the sandbox's memory already: they stand for what has their name here.
    """
    winners = {secret.name: secret for layer in layers for secret in layer.secrets}
    own = [
        Seal(naming.new_sealed_token(), name, secret.id)
        for name, secret in winners.items()
        if name not in plain
    ]
    inherited = [
        Seal(each.token, each.name, winners[each.name].id if each.name in winners else None, inherited=True)
        for each in copied
    ]
    warnings = [
        f"secret {name!r} is not used: envs has a variable of this name" for name in winners if name in plain
    ]
    return Sealing(tuple(layer.store.id for layer in layers), (*own, *inherited), tuple(warnings))
