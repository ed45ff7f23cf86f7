"""The keyring in a file: only the right key opens a secret, only in its place, and no file tells a value."""

from __future__ import annotations

import base64
import json
import stat
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from opencomputer.server.contracts.secrets import KeyringDamaged, KeyringMissing
from opencomputer.server.domain.errors import SecretUnreadable
from opencomputer.server.domain.secrets import Ciphertext, SecretPlace
from opencomputer.server.stores.keyring.file import FileKeyring
from opencomputer.wire.ids import OrgId, SecretId, SecretStoreId

VALUE = "sk-live-canary"
PLACE = SecretPlace(OrgId("org-1"), SecretStoreId("store-1"), SecretId("secret-1"))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "keyring.json"


@pytest.fixture
def keyring(file: Path) -> FileKeyring:
    return FileKeyring.open_or_create(file)


@pytest.mark.parametrize("value", [VALUE, "x", "two\nlines", "ä" * 1000])
def test_a_value_comes_back(keyring: FileKeyring, file: Path, value: str) -> None:
    sealed = keyring.encrypt(value, PLACE)
    assert value.encode() not in sealed.data or value == "x"
    assert keyring.decrypt(sealed, PLACE) == value
    assert FileKeyring(file).decrypt(sealed, PLACE) == value


def test_the_same_value_never_looks_the_same(keyring: FileKeyring) -> None:
    assert len({keyring.encrypt(VALUE, PLACE).data for _ in range(100)}) == 100


@pytest.mark.parametrize(
    "place",
    [
        replace(PLACE, org_id=OrgId("org-2")),
        replace(PLACE, store_id=SecretStoreId("store-2")),
        replace(PLACE, secret_id=SecretId("secret-2")),
        SecretPlace(OrgId("org-1\0store-1"), SecretStoreId("secret-1"), SecretId("")),
    ],
)
def test_a_value_opens_in_its_place_only(keyring: FileKeyring, place: SecretPlace) -> None:
    with pytest.raises(SecretUnreadable):
        keyring.decrypt(keyring.encrypt(VALUE, PLACE), place)


def test_a_value_that_was_changed_does_not_open(keyring: FileKeyring) -> None:
    data = keyring.encrypt(VALUE, PLACE).data
    for position in range(len(data)):
        changed = bytearray(data)
        changed[position] ^= 1
        with pytest.raises(SecretUnreadable):
            keyring.decrypt(Ciphertext(1, bytes(changed)), PLACE)
    for length in range(len(data)):
        with pytest.raises(SecretUnreadable):
            keyring.decrypt(Ciphertext(1, data[:length]), PLACE)


def test_the_file_is_its_owners_only(keyring: FileKeyring, file: Path) -> None:
    assert keyring.versions == [1]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    file.chmod(0o644)
    FileKeyring(file)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [each.name for each in file.parent.iterdir()] == [file.name]


def test_new_keys_encrypt_and_old_ones_still_open(keyring: FileKeyring, file: Path) -> None:
    old = keyring.encrypt(VALUE, PLACE)
    assert (keyring.add_key(), keyring.newest) == (2, 2)
    new = keyring.encrypt(VALUE, PLACE)
    assert (old.key_version, new.key_version) == (1, 2)
    assert keyring.decrypt(old, PLACE) == keyring.decrypt(new, PLACE) == VALUE
    keyring.drop([1, 2])
    assert FileKeyring(file).versions == [2]
    with pytest.raises(SecretUnreadable, match="no key 1"):
        keyring.decrypt(old, PLACE)


def test_a_key_that_another_process_added_is_used_at_once(keyring: FileKeyring, file: Path) -> None:
    assert FileKeyring(file).add_key() == 2
    assert keyring.encrypt(VALUE, PLACE).key_version == 2


def test_a_file_that_breaks_while_the_node_runs_changes_nothing(keyring: FileKeyring, file: Path) -> None:
    sealed = keyring.encrypt(VALUE, PLACE)
    file.write_text("{")
    assert keyring.decrypt(sealed, PLACE) == VALUE
    file.unlink()
    assert keyring.decrypt(keyring.encrypt(VALUE, PLACE), PLACE) == VALUE


def test_keys_that_are_added_at_once_are_all_there(file: Path) -> None:
    FileKeyring.open_or_create(file)
    threads = [threading.Thread(target=lambda: FileKeyring(file).add_key()) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert FileKeyring(file).versions == list(range(1, 10))


_KEY = base64.b64encode(b"k" * 32).decode()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "is not JSON"),
        ("{", "is not JSON"),
        ("[]", "must be a JSON object"),
        ("{}", '"keys" must be an object'),
        (json.dumps({"newest": 1, "keys": {}}), '"keys" must be an object'),
        (json.dumps({"newest": 1, "keys": {"one": _KEY}}), "a version"),
        (json.dumps({"newest": 1, "keys": {"0": _KEY}}), "a version"),
        (json.dumps({"newest": 1, "keys": {"1": _KEY[:-8]}}), "key 1 is not 32 bytes"),
        (json.dumps({"newest": 1, "keys": {"1": "canary!"}}), "key 1 is not 32 bytes"),
        (json.dumps({"newest": 1, "keys": {"1": 7}}), "key 1 is not 32 bytes"),
        (json.dumps({"newest": 2, "keys": {"1": _KEY}}), '"newest" must be'),
        (json.dumps({"newest": "1", "keys": {"1": _KEY}}), '"newest" must be'),
        (json.dumps({"newest": 1, "keys": {"1": _KEY, "2": _KEY}}), '"newest" must be the highest'),
    ],
)
def test_what_is_no_keyring_is_refused_and_said_without_its_keys(file: Path, content: str, said: str) -> None:
    file.write_text(content)
    with pytest.raises(KeyringDamaged) as caught:
        FileKeyring.open_or_create(file)
    assert said in str(caught.value)
    assert str(file) in str(caught.value)
    assert "canary" not in str(caught.value)
    assert file.read_text() == content


def test_lost_keys_are_not_replaced_while_something_is_encrypted_with_them(file: Path) -> None:
    with pytest.raises(KeyringMissing, match="oc keyring forget"):
        FileKeyring.open_or_create(file, stored=3)
    assert not file.exists()
    keyring = FileKeyring.open_or_create(file, first_version=5)
    assert (keyring.newest, keyring.versions) == (5, [5])
