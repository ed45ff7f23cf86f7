"""The private files of a node, as one: with them whoever has a backup can read its secrets."""

from __future__ import annotations

import base64
import json
import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

from opencomputer.server.backups.errors import BackupDamaged, BackupError

PRIVATE = ("keyring.json", "node.json", "egress-authority.pem", "local-key.json")
"""By name in the data folder: keys of secrets, what tokens and URLs are signed with, the authority that
machines trust, the key of `oc` on the machine."""

_COST = 1 << 15
_PLACE = b"opencomputer backup keys"


def collect(data: Path) -> Mapping[str, bytes]:
    return {name: (data / name).read_bytes() for name in PRIVATE if (data / name).exists()}


def to_bytes(files: Mapping[str, bytes], passphrase: str | None) -> bytes:
    """Readable by anybody, or only with the passphrase."""
    plain = json.dumps({name: _text(content) for name, content in files.items()}).encode()
    if passphrase is None:
        return json.dumps({"files": json.loads(plain)}).encode()
    salt, nonce = secrets.token_bytes(16), secrets.token_bytes(12)
    sealed = AESGCM(_key(passphrase, salt, _COST)).encrypt(nonce, plain, _PLACE)
    fields = {"salt": _text(salt), "nonce": _text(nonce), "cost": _COST, "sealed": _text(sealed)}
    return json.dumps(fields).encode()


def from_bytes(content: bytes, passphrase: str | None) -> Mapping[str, bytes]:
    """Raises BackupDamaged, and BackupError without the right passphrase."""
    try:
        fields = cast(dict[str, Any], json.loads(content))
        listed = fields["files"] if "files" in fields else _opened(fields, passphrase)
        files = {str(name): base64.b64decode(text) for name, text in cast(dict[str, str], listed).items()}
    except (ValueError, KeyError, TypeError):
        raise BackupDamaged("the keys of this backup cannot be read") from None
    if unknown := files.keys() - set(PRIVATE):
        raise BackupDamaged(f"the keys of this backup contain {sorted(unknown)}")
    return files


def _opened(fields: Mapping[str, Any], passphrase: str | None) -> object:
    if passphrase is None:
        raise BackupError("the keys of this backup are sealed: give --passphrase-file")
    key = _key(passphrase, base64.b64decode(fields["salt"]), min(int(fields["cost"]), 1 << 20))
    nonce, sealed = base64.b64decode(fields["nonce"]), base64.b64decode(fields["sealed"])
    try:
        return json.loads(AESGCM(key).decrypt(nonce, sealed, _PLACE))
    except InvalidTag:
        raise BackupError("the passphrase does not open the keys of this backup") from None


def write_separately(content: bytes, file: Path) -> None:
    """Raises BackupError: an older file of keys is never replaced."""
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        raise BackupError(f"{file} exists already; keys are not written over others") from None
    with open(descriptor, "wb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())


def _key(passphrase: str, salt: bytes, cost: int) -> bytes:
    return Scrypt(salt=salt, length=32, n=cost, r=8, p=1).derive(passphrase.encode())


def _text(content: bytes) -> str:
    return base64.b64encode(content).decode()
