"""What a sandbox may reach."""

from __future__ import annotations

import pytest

from opencomputer.server.domain.egress import (
    EgressMode,
    EgressRules,
    SealedSecret,
    check_patterns,
    matches,
    proxy_environment,
)
from opencomputer.server.domain.errors import InvalidInput
from opencomputer.wire.ids import OrgId, SandboxId

_ORG, _SANDBOX = OrgId("org"), SandboxId("sb-00000000")


def _rules(
    *, network: bool = True, allowlist: tuple[str, ...] = (), secrets: tuple[SealedSecret, ...] = ()
) -> EgressRules:
    return EgressRules(_ORG, _SANDBOX, network, allowlist, secrets)


@pytest.mark.parametrize(
    ("pattern", "host", "expected"),
    [
        ("api.example.com", "api.example.com", True),
        ("api.example.com", "API.Example.COM.", True),
        ("api.example.com", "a.api.example.com", False),
        ("api.example.com", "xapi.example.com", False),
        ("*.example.com", "a.example.com", True),
        ("*.example.com", "a.b.example.com", True),
        ("*.example.com", "example.com", False),
        ("*.example.com", ".example.com", False),
        ("*.example.com", "badexample.com", False),
        ("*.Example.com.", "A.EXAMPLE.com", True),
        ("*", "anything.at.all", True),
    ],
)
def test_patterns(pattern: str, host: str, expected: bool) -> None:
    assert matches(pattern, host) is expected


@pytest.mark.parametrize(
    "bad",
    ["", " ", "a b", "https://x.com", "x.com:443", "x.com/p", "*x.com", "a.*.com", "*.", "-a.com", "ä.de"],
)
def test_what_is_no_pattern_is_refused_with_the_field_named(bad: str) -> None:
    with pytest.raises(InvalidInput, match="allowedHosts"):
        check_patterns(["ok.com", bad], "allowedHosts")


def test_patterns_are_kept_once_in_their_normal_form() -> None:
    assert check_patterns(["A.com", "a.com.", "*.B.com", "10.0.0.1"], "f") == ("a.com", "*.b.com", "10.0.0.1")


def test_modes() -> None:
    secret = SealedSecret("KEY", "osb_sealed_0", "value")
    assert _rules().mode is EgressMode.OPEN
    assert _rules(secrets=(secret,)).mode is EgressMode.WATCHED
    assert _rules(allowlist=("a.com",)).mode is EgressMode.RESTRICTED
    assert _rules(allowlist=("a.com",), secrets=(secret,)).mode is EgressMode.RESTRICTED
    assert _rules(network=False, secrets=(secret,)).mode is EgressMode.CLOSED


def test_a_secret_goes_only_where_the_list_and_its_own_hosts_permit() -> None:
    anywhere = SealedSecret("A", "t1", "v1")
    limited = SealedSecret("B", "t2", "v2", ("*.b.com", "c.com"))
    rules = _rules(allowlist=("a.com", "*.b.com"), secrets=(anywhere, limited))
    assert [secret.name for secret in rules.secrets_for("a.com")] == ["A"]
    assert [secret.name for secret in rules.secrets_for("x.b.com")] == ["A", "B"]
    assert rules.secrets_for("c.com") == ()
    assert _rules(network=False, secrets=(anywhere,)).secrets_for("a.com") == ()


def test_a_value_is_not_shown_by_accident() -> None:
    assert "v1-very-secret" not in repr(_rules(secrets=(SealedSecret("A", "t", "v1-very-secret"),)))


def test_programs_are_told_of_the_proxy_but_not_for_what_is_near() -> None:
    told = proxy_environment()
    assert told["https_proxy"] == told["HTTP_PROXY"] == "http://169.254.169.252:3128"
    assert told["NO_PROXY"] == told["no_proxy"]
    assert {"localhost", "127.0.0.1", "169.254.169.254"} <= set(told["no_proxy"].split(","))
    assert told["NODE_EXTRA_CA_CERTS"] == told["SSL_CERT_FILE"] == "/etc/ssl/certs/ca-certificates.crt"
