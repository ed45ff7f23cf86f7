"""The node's certificate authority: kept, never replaced behind anybody's back, and good for every host."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from opencomputer.server.contracts.network import AuthorityUnusable
from opencomputer.server.network.proxy.authority import (
    Leaves,
    new_authority,
    open_authority,
)

NOW = datetime(2030, 1, 1, tzinfo=UTC)


def test_it_is_made_once_and_only_its_owner_may_read_it(tmp_path: Path) -> None:
    file = tmp_path / "deep" / "authority.pem"
    made = open_authority(file, NOW)
    assert file.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in file.parent.iterdir()] == ["authority.pem"]
    assert open_authority(file, NOW).certificate == made.certificate
    assert "PRIVATE" not in made.certificate_pem


def test_it_signs_for_hosts_and_nothing_below_it_may() -> None:
    certificate = new_authority(NOW).certificate
    constraints = certificate.extensions.get_extension_for_class(x509.BasicConstraints)
    assert (constraints.critical, constraints.value.ca, constraints.value.path_length) == (True, True, 0)
    assert certificate.not_valid_after_utc - NOW > timedelta(days=3000)


@pytest.mark.parametrize("damage", ["empty", "cut", "other key", "no authority", "out of date", "folder"])
def test_a_damaged_one_stops_the_node_and_is_left_as_it_is(tmp_path: Path, damage: str) -> None:
    file = tmp_path / "authority.pem"
    open_authority(file, NOW)
    content, now = file.read_bytes(), NOW
    key = content[: content.index(b"-----BEGIN CERTIFICATE")]
    if damage == "empty":
        file.write_bytes(b"")
    elif damage == "cut":
        file.write_bytes(content[:-100])
    elif damage == "other key":
        file.write_bytes(key + new_authority(NOW).certificate_pem.encode())
    elif damage == "no authority":
        file.write_bytes(key)
    elif damage == "out of date":
        now += timedelta(days=3650)
    else:
        file.unlink()
        file.mkdir()
    before = None if file.is_dir() else file.read_bytes()
    with pytest.raises(AuthorityUnusable, match=r"authority\.pem"):
        open_authority(file, now)
    assert before is None or file.read_bytes() == before


def test_a_leaf_is_kept_for_an_hour() -> None:
    now = NOW
    leaves = Leaves(new_authority(NOW), lambda: now)
    first = leaves.context("a.example.com")
    now += timedelta(minutes=59)
    assert leaves.context("a.example.com") is first
    assert leaves.context("b.example.com") is not first
    now += timedelta(minutes=2)
    assert leaves.context("a.example.com") is not first


def test_a_leaf_is_for_one_name_or_address_and_one_day() -> None:
    authority = new_authority(NOW)
    sign = Leaves(authority, lambda: NOW)._sign  # pyright: ignore[reportPrivateUsage] - what programs are shown
    leaf = sign("a.example.com", NOW)
    names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["a.example.com"]
    assert leaf.not_valid_after_utc == NOW + timedelta(hours=24)
    leaf.verify_directly_issued_by(authority.certificate)
    addresses = sign("192.0.2.1", NOW).extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert [str(address) for address in addresses.get_values_for_type(x509.IPAddress)] == ["192.0.2.1"]
    assert leaf.public_bytes(serialization.Encoding.PEM)
