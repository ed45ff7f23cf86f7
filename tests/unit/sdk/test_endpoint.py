"""Where the server is comes from the argument, else the environment, else the default."""

from __future__ import annotations

import pytest

from opencomputer.sdk.durable.endpoint import DurableEndpoint
from opencomputer.sdk.endpoint import Endpoint, InvalidKeyError, api_base, is_loopback


@pytest.mark.parametrize(
    ("url", "base"),
    [
        ("http://node:8080", "http://node:8080/api"),
        ("http://node:8080/", "http://node:8080/api"),
        ("http://node:8080/api", "http://node:8080/api"),
        ("http://node:8080/api//", "http://node:8080/api"),
        ("https://host/prefix", "https://host/prefix/api"),
    ],
)
def test_the_base_ends_in_api_once(url: str, base: str) -> None:
    assert api_base(url) == base


def test_arguments_come_before_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENCOMPUTER_API_URL", "http://environment")
    monkeypatch.setenv("OPENCOMPUTER_API_KEY", "osb_environment")
    assert Endpoint.resolve("osb_argument", "http://argument") == Endpoint(
        "http://argument/api", "osb_argument"
    )
    assert Endpoint.resolve() == Endpoint("http://environment/api", "osb_environment")


def test_without_either_the_default_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENCOMPUTER_API_URL", raising=False)
    monkeypatch.delenv("OPENCOMPUTER_API_KEY", raising=False)
    assert Endpoint.resolve() == Endpoint("https://app.opencomputer.dev/api", "")


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", True),
        ("localhost", True),
        ("::1", True),
        ("10.0.0.1", False),
        ("app.opencomputer.dev", False),
        ("", False),
    ],
)
def test_this_machine_is_recognised(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected


def test_browsers_and_hosted_agents_are_looked_for_at_the_own_server(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENCOMPUTER_API_KEY", "OPENCOMPUTER_API_URL", "OPENCOMPUTER_BROWSER_API_URL"):
        monkeypatch.delenv(name, raising=False)
    assert Endpoint.of_browsers() == Endpoint("https://browser.opencomputer.dev", "")
    assert Endpoint.of_hosted_agents() == Endpoint("https://api.opencomputer.dev/v1", "")
    monkeypatch.setenv("OPENCOMPUTER_API_URL", "http://own:8080/api/")
    assert Endpoint.of_browsers("k") == Endpoint("http://own:8080", "k")
    assert Endpoint.of_hosted_agents("k") == Endpoint("http://own:8080/v1", "k")
    assert Endpoint.of_hosted_agents("k", "http://given/v1/").base == "http://given/v1"
    monkeypatch.setenv("OPENCOMPUTER_BROWSER_API_URL", "http://browsers/")
    assert Endpoint.of_browsers("k", None).base == "http://browsers"
    assert Endpoint.of_browsers("k", "http://given/").base == "http://given"


@pytest.mark.parametrize("key", ["osb_ü", "osb_1\n", "osb_1\r", " osb_1"])
def test_a_key_that_no_request_can_carry_is_told_of_by_its_character_alone(key: str) -> None:
    """The message may end in a log, where no key belongs."""
    for make in (
        lambda: Endpoint.resolve(key, "http://node"),
        lambda: DurableEndpoint.resolve(key, "http://node"),
    ):
        with pytest.raises(InvalidKeyError, match="the API key has ") as caught:
            make()
        assert "osb_" not in str(caught.value)
