"""A keyring in a private file: versioned AES-256 keys, the newest of which encrypts.

Every process with the same file follows its changes: keys are added while a node runs.
"""

from __future__ import annotations

import base64
import binascii
import fcntl
import json
import os
import secrets
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from opencomputer.server.contracts.secrets import KeyringDamaged, KeyringMissing, Place
from opencomputer.server.domain.errors import SecretUnreadable
from opencomputer.server.domain.secrets import Ciphertext

_KEY_BYTES = 32
_NONCE_BYTES = 12
_TAG_BYTES = 16


@dataclass(frozen=True)
class _Keys:
    newest: int
    by_version: Mapping[int, bytes] = field(repr=False)


class FileKeyring:
    """Implements Keyring and KeyringUpkeep."""

    def __init__(self, path: Path) -> None:
        """Raises KeyringDamaged, and FileNotFoundError when there is none."""
        self._path = path
        self._seen = _mark(path)
        self._keys = _load(path)

    @classmethod
    def open_or_create(cls, path: Path, *, stored: int = 0, first_version: int = 1) -> FileKeyring:
        """The keyring of this file; a new one where there is no file.

        Raises KeyringDamaged, and KeyringMissing where a new one would not open the `stored` secrets.
        """
        if not path.exists():
            if stored:
                raise KeyringMissing(
                    f"{path} is missing, and the stored secrets ({stored}) are encrypted with it. Restore it "
                    "from a backup. If it is lost, those secrets are, too: `oc keyring forget` removes them "
                    "and makes a new key"
                )
            _write(path, _Keys(first_version, {first_version: secrets.token_bytes(_KEY_BYTES)}))
        return cls(path)

    @property
    def newest(self) -> int:
        return self._current().newest

    @property
    def versions(self) -> Sequence[int]:
        return sorted(self._current().by_version)

    def encrypt(self, value: str, place: Place) -> Ciphertext:
        keys = self._current()
        nonce = secrets.token_bytes(_NONCE_BYTES)
        sealed = AESGCM(keys.by_version[keys.newest]).encrypt(nonce, value.encode(), place.associated_data)
        return Ciphertext(keys.newest, nonce + sealed)

    def decrypt(self, ciphertext: Ciphertext, place: Place) -> str:
        key = self._current().by_version.get(ciphertext.key_version)
        if key is None:
            raise SecretUnreadable(f"the keyring of this server has no key {ciphertext.key_version}")
        nonce, sealed = ciphertext.data[:_NONCE_BYTES], ciphertext.data[_NONCE_BYTES:]
        if len(sealed) < _TAG_BYTES:
            raise SecretUnreadable("a stored secret is too short to be one")
        try:
            return AESGCM(key).decrypt(nonce, sealed, place.associated_data).decode()
        except InvalidTag:
            raise SecretUnreadable(
                f"key {ciphertext.key_version} of this server's keyring does not open a stored secret: it is "
                "another key, or the secret was changed or moved"
            ) from None

    def add_key(self) -> int:
        """Make a new key, which encrypts from now on, here and in every process with this file."""
        with self._changing() as keys:
            version = keys.newest + 1
            self._replace(
                _Keys(version, {**keys.by_version, version: secrets.token_bytes(_KEY_BYTES)}),
            )
        return version

    def drop(self, versions: Sequence[int]) -> None:
        with self._changing() as keys:
            kept = {
                version: key
                for version, key in keys.by_version.items()
                if version not in versions or version == keys.newest
            }
            self._replace(_Keys(keys.newest, kept))

    def _current(self) -> _Keys:
        """The keys as they are in the file now. One that cannot be read meanwhile changes nothing."""
        try:
            mark = _mark(self._path)
            if mark != self._seen:
                self._keys, self._seen = _load(self._path), mark
        except (OSError, KeyringDamaged):
            pass
        return self._keys

    @contextmanager
    def _changing(self) -> Generator[_Keys]:
        """Nobody else changes the file meanwhile."""
        lock = os.open(self._path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield _load(self._path)
        finally:
            os.close(lock)

    def _replace(self, keys: _Keys) -> None:
        _write(self._path, keys)
        self._keys, self._seen = keys, _mark(self._path)


def _mark(path: Path) -> tuple[int, int, int]:
    found = path.stat()
    return found.st_ino, found.st_mtime_ns, found.st_size


def _load(path: Path) -> _Keys:
    # Others must not read it, whoever made it so.
    if path.stat().st_mode & 0o077:
        path.chmod(0o600)
    try:
        content: object = json.loads(path.read_text())
    except (ValueError, UnicodeDecodeError):
        raise KeyringDamaged(f"{path}: is not JSON") from None
    try:
        keys = _parse(content)
    except ValueError as error:
        raise KeyringDamaged(f"{path}: {error}") from None
    return keys


def _parse(content: object) -> _Keys:
    """Raises ValueError with a text of ours."""
    if not isinstance(content, dict):
        raise ValueError("must be a JSON object")
    table = cast(dict[str, Any], content)
    newest, listed = table.get("newest"), table.get("keys")
    if not isinstance(listed, dict) or not listed:
        raise ValueError('"keys" must be an object with at least one key by its version')
    keys: dict[int, bytes] = {}
    for version, text in cast(dict[str, object], listed).items():
        if not version.isascii() or not version.isdigit() or int(version) < 1:
            raise ValueError('a version in "keys" is not a whole number from 1')
        keys[int(version)] = _key(version, text)
    if not isinstance(newest, int) or newest not in keys:
        raise ValueError('"newest" must be the version of one of the "keys"')
    if newest != max(keys):
        raise ValueError('"newest" must be the highest version of the "keys"')
    return _Keys(newest, keys)


def _key(version: str, text: object) -> bytes:
    try:
        key = base64.b64decode(text, validate=True) if isinstance(text, str) else b""
    except (binascii.Error, ValueError):
        key = b""
    if len(key) != _KEY_BYTES:
        raise ValueError(f"key {version} is not {_KEY_BYTES} bytes in base64")
    return key


def _write(path: Path, keys: _Keys) -> None:
    """Whole or not at all, and readable by its owner only from the first moment."""
    listed = {
        str(version): base64.b64encode(key).decode() for version, key in sorted(keys.by_version.items())
    }
    draft = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    try:
        with open(os.open(draft, flags, 0o600), "w") as stream:
            json.dump({"newest": keys.newest, "keys": listed}, stream, indent=2)
            stream.flush()
            os.fsync(stream.fileno())
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
