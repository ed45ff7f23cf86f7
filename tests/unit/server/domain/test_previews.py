"""Names of previews, tokens, and whom a grant lets in."""

from __future__ import annotations

import pytest

from opencomputer.server.domain.errors import InvalidInput
from opencomputer.server.domain.previews import (
    Grant,
    PreviewAddress,
    PreviewDomains,
    parse_host,
    wanted_token,
)
from opencomputer.wire.ids import GrantId, OrgId, SandboxId
from tests.support import rows

BOX = SandboxId("sb-0a1b2c3d")


@pytest.mark.parametrize(
    ("host", "port", "domain"),
    [
        ("sb-0a1b2c3d-p3000.localhost", 3000, "localhost"),
        ("SB-0A1B2C3D-P80.Example.COM.:8443", 80, "example.com"),
        ("sb-0a1b2c3d-p65535.a.b.c", 65535, "a.b.c"),
        ("sb-0a1b2c3d-p0", 0, ""),
    ],
)
def test_a_name_says_which_port_of_which_sandbox(host: str, port: int, domain: str) -> None:
    assert parse_host(host) == PreviewAddress(BOX, port, domain)


def test_the_last_p_divides() -> None:
    assert parse_host("sb-x-p1-p22.localhost") == PreviewAddress(SandboxId("sb-x-p1"), 22, "localhost")


@pytest.mark.parametrize(
    "host",
    [
        "",
        "localhost:8080",
        "127.0.0.1",
        "[::1]:8080",
        "sb-0a1b2c3d.localhost",
        "x.sb-0a1b2c3d-p3000.localhost",
        "sb-0a1b2c3d-p123456.localhost",
        "sb-0a1b2c3d-p３.localhost",
        "sb-0a1b2c3d-p3000.localhost/x",
        "sb-0a1b2c3d-p3000.localhost@evil",
        "a" * 100_000,
    ],
)
def test_other_names_are_no_previews(host: str) -> None:
    assert parse_host(host) is None


def test_an_address_says_its_name() -> None:
    assert PreviewAddress(BOX, 80, "localhost").host == "sb-0a1b2c3d-p80.localhost"


@pytest.mark.parametrize("wish", [{}, {"token": "auto"}, {"token": ""}, {"scheme": "bearer", "token": None}])
def test_a_token_may_be_left_to_the_server(wish: object) -> None:
    assert wanted_token(wish) is None


@pytest.mark.parametrize("token", ["x" * 15, "x" * 513, "sixteen letters é", "with a space in it", 16, []])
def test_a_token_must_fit_into_a_header(token: object) -> None:
    with pytest.raises(InvalidInput) as refused:
        wanted_token({"token": token})
    assert refused.value.details["field"] == "previewAuth.token"
    assert wanted_token({"token": "x" * 16}) == "x" * 16


def test_a_grant_is_for_one_port_and_ends() -> None:
    grant = Grant(GrantId("g"), BOX, OrgId("o"), 3000, "hash", rows.at(0), rows.at(60))
    address = PreviewAddress(BOX, 3000, "localhost")
    assert grant.opens(address, rows.at(59))
    assert not grant.opens(address, rows.at(60))
    assert not grant.opens(PreviewAddress(BOX, 8080, "localhost"), rows.at(1))
    assert not grant.opens(PreviewAddress(SandboxId("sb-other"), 3000, "localhost"), rows.at(1))


def test_a_domain_is_one_organisations_or_everybodys() -> None:
    domains = PreviewDomains("localhost", {"mine.example": "me", "all.example": None})
    assert domains.permits("mine.example", OrgId("me"))
    assert not domains.permits("mine.example", OrgId("you"))
    assert domains.permits("all.example", OrgId("you"))
    assert not domains.permits("localhost", OrgId("me"))
