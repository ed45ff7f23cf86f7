"""Which addresses may be connected to."""

from __future__ import annotations

import pytest

from opencomputer.server.network.addresses import is_own, is_public, literal, may_be_reached


@pytest.mark.parametrize(
    "address",
    ["10.0.0.1", "172.31.255.1", "192.168.1.1", "127.0.0.1", "169.254.169.254", "100.64.0.1", "0.0.0.0",
     "224.0.0.251", "255.255.255.255", "198.18.0.1", "::", "::1", "fe80::1", "fe80::1%eth0", "fc00::1",
     "fd00:ec2::254", "ff02::1", "::ffff:127.0.0.1", "::ffff:169.254.169.254", "::ffff:a00:1", "::127.0.0.1",
     "64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::1", "2001:0:a9fe:a9fe::1", "", "localhost", "0x7f.1",
     "2130706433"],
)  # fmt: skip
def test_private_special_and_disguised_addresses_are_not_public(address: str) -> None:
    assert not is_public(address)
    assert not may_be_reached(address)


@pytest.mark.parametrize(
    "address",
    ["1.1.1.1", "192.0.2.1", "172.32.0.1", "2606:4700::1111", "2a00:1450:4001::8a", "::ffff:1.1.1.1"],
)
def test_addresses_of_the_internet_are(address: str) -> None:
    assert is_public(address)


@pytest.mark.parametrize(
    ("host", "expected"),
    [("1.2.3.4", "1.2.3.4"), ("[2606:4700::1]", "2606:4700::1"), ("[::ffff:1.2.3.4]", "1.2.3.4"),
     ("2606:4700:0::1", "2606:4700::1"), ("example.com", None), ("1.2.3", None), ("0x7f000001", None),
     ("01.02.03.04", None)],
)  # fmt: skip
def test_a_literal_has_one_form(host: str, expected: str | None) -> None:
    assert literal(host) == expected


def test_the_hosts_own_address_is_known_as_such() -> None:
    assert is_own("127.0.0.1")
    assert not is_own("203.0.113.7")
    assert not is_own("no address")
