"""Where the server is comes from the argument, else the environment, else the default."""

from __future__ import annotations

import pytest

from opencomputer.sdk.endpoint import Endpoint, api_base, is_loopback


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
