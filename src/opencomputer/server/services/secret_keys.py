"""What an operator does with the keys that secrets are encrypted with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from opencomputer.server.contracts.secrets import Keyring, KeyringUpkeep, SecretRows
from opencomputer.server.domain.errors import SecretUnreadable
from opencomputer.server.domain.secrets import Secret, SecretPlace
from opencomputer.wire.ids import OrgId


@dataclass(frozen=True)
class Rotated:
    """`version` encrypts from now on; the keys of `dropped` versions opened nothing any more and are gone.

    `unreadable` secrets are encrypted with keys that are not there. They stay as they are.
    """

    version: int
    encrypted: int
    unreadable: int
    dropped: Sequence[int]


async def rotate(keyring: KeyringUpkeep, secrets: SecretRows) -> Rotated:
    """Make a new key and encrypt every secret with it, while others use the keyring, too.

    Only keys that opened nothing when this began are dropped: somebody may still be writing with the last.
    """
    used = {secret.ciphertext.key_version for _, secret in await secrets.all()} | {keyring.newest}
    unused = [version for version in keyring.versions if version not in used]
    version = keyring.add_key()
    encrypted = unreadable = 0
    for org_id, secret in await secrets.all():
        place = SecretPlace(org_id, secret.store_id, secret.id)
        value = _value(keyring, org_id, secret)
        if value is None:
            unreadable += 1
            continue
        # False: it was set anew meanwhile, with the new key.
        encrypted += await secrets.recrypt(secret.id, secret.ciphertext, keyring.encrypt(value, place))
    keyring.drop(unused)
    return Rotated(version, encrypted, unreadable, unused)


async def forget_unreadable(keyring: Keyring, secrets: SecretRows) -> int:
    """Remove every secret that the keyring does not open: its keys are lost. Returns how many."""
    removed = 0
    for org_id, secret in await secrets.all():
        if _value(keyring, org_id, secret) is None:
            removed += await secrets.remove(secret.id)
    return removed


def _value(keyring: Keyring, org_id: OrgId, secret: Secret) -> str | None:
    try:
        return keyring.decrypt(secret.ciphertext, SecretPlace(org_id, secret.store_id, secret.id))
    except SecretUnreadable:
        return None
