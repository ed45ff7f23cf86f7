"""Where durable sessions are looked for."""

from __future__ import annotations

import pytest

from opencomputer.sdk.durable.endpoint import DEFAULT_BASE_URL, DurableEndpoint

_VARIABLES = ("OPENCOMPUTER_SESSIONS_URL", "SESSIONS_API_URL", "OPENCOMPUTER_API_URL", "OPENCOMPUTER_API_KEY")


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in _VARIABLES:
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    "url", ["http://node:8080", "http://node:8080/", "http://node:8080/api", "http://node:8080/v3/"]
)
def test_a_server_may_be_named_by_its_root_or_by_either_of_its_apis(url: str) -> None:
    assert DurableEndpoint.resolve("k", url).base == "http://node:8080/v3"


def test_a_prefix_in_front_stays() -> None:
    assert DurableEndpoint.resolve("k", "https://host/oc/v3").base == "https://host/oc/v3"


def test_variables_count_in_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    assert DurableEndpoint.resolve().base == DEFAULT_BASE_URL
    for name, host in zip(reversed(_VARIABLES[:3]), ("sandboxes", "cli", "sessions"), strict=True):
        monkeypatch.setenv(name, f"http://{host}")
        assert DurableEndpoint.resolve().base == f"http://{host}/v3"
    monkeypatch.setenv("OPENCOMPUTER_API_KEY", "osb_environment")
    assert DurableEndpoint.resolve().token == "osb_environment"
    assert DurableEndpoint.resolve("osb_given", "http://given").token == "osb_given"
