"""One more authority in a key store that Java's own keytool has made."""

from __future__ import annotations

import base64
import os
import struct
from pathlib import Path

import pytest

from opencomputer.inside.guest.java_trust import ALIAS, NotAKeyStore, changed_store
from opencomputer.inside.guest.trust import install_authority


def _pem(content: bytes) -> str:
    return f"-----BEGIN CERTIFICATE-----\n{base64.b64encode(content).decode()}\n-----END CERTIFICATE-----\n"


# One certificate and one private key, with the password every JDK gives its store.
STORE = base64.b64decode(
    "/u3+7QAAAAIAAAACAAAAAgAFb3RoZXIAAAGiLHQBkAAFWC41MDkAAAF4MIIBdDCCARugAwIBAgIUSTdpp2zTtQINnqmzUSemNlsq"
    "N9AwCgYIKoZIzj0EAwIwEDEOMAwGA1UEAwwFb3RoZXIwHhcNMjYxMTMwMTIzNTI5WhcNMzYxMTI3MTIzNTI5WjAQMQ4wDAYDVQQD"
    "DAVvdGhlcjBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABJVWINS3GiYOVtGIKI7GfiQWmlrHzhSpDQi7IVv7/Ty1lWZN2uozsPUm"
    "1fZ3MeXMAbIVNxLAo1Tu2qecesEJo1CjUzBRMB0GA1UdDgQWBBRn+17L8D5Yiyt4gZa7I5Akut5mtDAfBgNVHSMEGDAWgBRn+17L"
    "8D5Yiyt4gZa7I5Akut5mtDAPBgNVHRMBAf8EBTADAQH/MAoGCCqGSM49BAMCA0cAMEQCIDrLttF6fWme+K5ly9uiIoqqfiL8upkG"
    "UWxzZHyt2K/FAiAyC8/08ahZ73QEnHVpsDZIeuAm+6Gb+0f/VmDXlsBc4wAAAAEABGFrZXkAAAGiLHQCywAAAH0wezAMBgorBgEE"
    "ASoCEQEBBGsIj4gTengyGlRJTzcfUqCFnXPDxAQJvSSvZQX3fGkr/KkYrzbzStTfiKL0HKoXMkbe6g3kURSiNWf3yFtspgzKGvES"
    "ZJg+yCys1DvRlcaP4kxhgpx7yI7zcf7JMKB9a3+xmDYEX1tM/rB4twAAAAEABVguNTA5AAABMjCCAS4wgdWgAwIBAgIIRT5w5cVO"
    "VU8wCgYIKoZIzj0EAwIwDDEKMAgGA1UEAxMBazAeFw0yNjExMzAxMjM1MzBaFw0yNzAyMjgxMjM1MzBaMAwxCjAIBgNVBAMTAWsw"
    "WTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAARG1FcfVZiK6tFrK/x6rV+D3Y1KwpUZzu4Xi1uoZFYq4oFGqWZ2phPX2Won89cw8Xqm"
    "dan6XWOlhQnUSsHCVYddoyEwHzAdBgNVHQ4EFgQUbMfVgBbL+527d3J4qeZjUUAqpc8wCgYIKoZIzj0EAwIDSAAwRQIhAO1R7Fdk"
    "YVubcIazh8zewYB9sPmbI/NQLpMifOt5t4wZAiAWa0Sqsvrfwo+1Y/kHsi/QaEz7bh8VOydEHIYeAIZbAf/6F5MT5f4aOertQdJq"
    "R2VRkf7o"
)
OURS, NEWER = _pem(b"ours, in DER"), _pem(b"newer")


def _count(store: bytes) -> int:
    return int(struct.unpack_from(">I", store, 8)[0])


def test_the_authority_is_added_to_what_is_there() -> None:
    changed = changed_store(STORE, OURS)
    assert changed is not None
    assert _count(changed) == _count(STORE) + 1 == 3
    assert STORE[12:-20] in changed
    assert ALIAS.encode() in changed
    assert b"ours, in DER" in changed


def test_adding_it_again_changes_nothing() -> None:
    changed = changed_store(STORE, OURS)
    assert changed is not None
    assert changed_store(changed, OURS) is None


def test_a_newer_one_takes_the_place_of_an_earlier_one() -> None:
    first = changed_store(STORE, OURS)
    assert first is not None
    second = changed_store(first, NEWER)
    assert second is not None
    assert _count(second) == 3
    assert b"newer" in second
    assert b"ours, in DER" not in second


@pytest.mark.parametrize("length", range(0, len(STORE), 7))
def test_a_store_that_is_cut_off_is_left_alone(length: int) -> None:
    with pytest.raises(NotAKeyStore):
        changed_store(STORE[:length], OURS)


@pytest.mark.parametrize("at", [0, 5, 11, 40, len(STORE) - 1])
def test_a_damaged_store_is_left_alone(at: int) -> None:
    damaged = bytearray(STORE)
    damaged[at] ^= 1
    with pytest.raises(NotAKeyStore):
        changed_store(bytes(damaged), OURS)


def test_the_stores_of_an_image_get_it_once_under_all_their_names(tmp_path: Path) -> None:
    store = tmp_path / "etc/ssl/certs/java/cacerts"
    link = tmp_path / "usr/lib/jvm/java-17/lib/security/cacerts"
    other = tmp_path / "opt/java/openjdk/lib/security/cacerts"
    for path in (store, link, other):
        path.parent.mkdir(parents=True)
    store.write_bytes(STORE)
    link.symlink_to(store)
    other.write_bytes(b"PKCS #12, for instance")
    install_authority(OURS, str(tmp_path))
    assert store.read_bytes() == changed_store(STORE, OURS)
    assert link.is_symlink()
    assert other.read_bytes() == b"PKCS #12, for instance"


def test_a_java_that_is_installed_later_finds_it_among_the_certificates(tmp_path: Path) -> None:
    """Its package takes what is linked from there."""
    install_authority(OURS, str(tmp_path))
    install_authority(OURS, str(tmp_path))
    link = tmp_path / "etc/ssl/certs/opencomputer.pem"
    assert os.readlink(link) == "/usr/local/share/ca-certificates/opencomputer.crt"
