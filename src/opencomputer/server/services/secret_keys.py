"""What an operator does with the keys that secrets are encrypted with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from opencomputer.server.contracts.secrets import EncryptedRows, EncryptedValue, Keyring, KeyringUpkeep
from opencomputer.server.domain.errors import SecretUnreadable


@dataclass(frozen=True)
class Rotated:
    """`version` encrypts from now on; the keys of `dropped` versions opened nothing any more and are gone.

    `unreadable` secrets are encrypted with keys that are not there. They stay as they are.
    """

    version: int
    encrypted: int
    unreadable: int
    dropped: Sequence[int]


async def rotate(keyring: KeyringUpkeep, tables: Sequence[EncryptedRows]) -> Rotated:
    """Make a new key and encrypt every value with it, while others use the keyring, too.

    Only keys that opened nothing when this began are dropped: somebody may still be writing with the last.
    """
    used = {value.ciphertext.key_version for rows in tables for value in await rows.values()}
    unused = [version for version in keyring.versions if version not in used | {keyring.newest}]
    version = keyring.add_key()
    encrypted = unreadable = 0
    for rows in tables:
        for value in await rows.values():
            opened = _opened(keyring, value)
            if opened is None:
                unreadable += 1
                continue
            # False: it was set anew meanwhile, with the new key.
            anew = keyring.encrypt(opened, value.place)
            encrypted += await rows.recrypt(value.id, value.ciphertext, anew)
    keyring.drop(unused)
    return Rotated(version, encrypted, unreadable, unused)


async def forget_unreadable(keyring: Keyring, tables: Sequence[EncryptedRows]) -> int:
    """Remove every value that the keyring does not open: its keys are lost. Returns how many."""
    removed = 0
    for rows in tables:
        for value in await rows.values():
            if _opened(keyring, value) is None:
                removed += await rows.remove(value.id)
    return removed


def _opened(keyring: Keyring, value: EncryptedValue) -> str | None:
    try:
        return keyring.decrypt(value.ciphertext, value.place)
    except SecretUnreadable:
        return None
