"""`Browser` and `BrowserProfile`: what is asked and where, and what becomes of the answers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from opencomputer import AuthCheck, Browser, BrowserProfile, NotFoundError, NotSupportedError
from tests.support.fake_node import FakeNode, Rule
from tests.unit.sdk.exchanges import UNSUPPORTED

pytestmark = pytest.mark.anyio

_ANSWER: dict[str, object] = {
    "id": "br_1",
    "provider": "kernel",
    "provider_session_id": "p-1",
    "status": "active",
    "cdp_ws_url": "wss://cdp.example/secret",
    "webdriver_ws_url": "wss://wd.example/secret",
    "live_view_url": None,
    "headless": True,
    "stealth": False,
    "gpu": None,
    "timeout_seconds": 60,
    "created_at": "2026-01-02T03:04:05Z",
    "deleted_at": None,
}
_BROWSER = Browser(
    id="br_1",
    provider="kernel",
    provider_session_id="p-1",
    status="active",
    cdp_ws_url="wss://cdp.example/secret",
    webdriver_ws_url="wss://wd.example/secret",
    headless=True,
    stealth=False,
    timeout_seconds=60,
    created_at="2026-01-02T03:04:05Z",
)
_PROFILE_ANSWER: dict[str, object] = {
    "id": "prof_1",
    "provider": "kernel",
    "provider_profile_id": "pp-1",
    "name": "shop",
    "provider_last_used_at": "2026-01-02T03:04:05Z",
}
_PROFILE = BrowserProfile("prof_1", "kernel", "pp-1", "shop", provider_last_used_at="2026-01-02T03:04:05Z")
_CHECKS = "/v1/profiles/prof_1/auth-checks"

OPTIONS: dict[str, object] = {
    "name": "b",
    "tags": {"team": "a"},
    "stealth": True,
    "headless": False,
    "gpu": False,
    "timeout_seconds": 120,
    "profile": {"name": "shop", "save_changes": True},
    "extensions": [{"id": "ext-1"}],
    "proxy_id": "px-1",
    "viewport": {"width": 1280, "height": 720, "refresh_rate": 60},
    "kiosk_mode": False,
    "start_url": "https://example.com",
    "chrome_policy": {"IncognitoModeAvailability": 1},
    "telemetry": False,
    "recording": True,
}


async def test_creating_sends_what_is_given_to_the_browsers_own_root(node: FakeNode) -> None:
    for options in (OPTIONS, {}):
        node.rules.append(Rule("POST", "/v1/browsers", 201, _ANSWER))
        browser = await Browser.create(api_key=node.api_key, api_url=f"{node.url}/", **options)  # pyright: ignore[reportArgumentType]
        assert browser == _BROWSER
        await browser.close()
        await browser.close()
    assert [(seen.path, seen.body) for seen in node.seen] == [("/v1/browsers", OPTIONS), ("/v1/browsers", {})]
    assert node.seen[0].headers["x-api-key"] == node.api_key
    assert "secret" not in repr(browser)


async def test_a_browser_is_taken_up_and_ended(node: FakeNode) -> None:
    node.rules.append(Rule("GET", "/v1/browsers/br_1", 200, _ANSWER))
    node.rules.append(Rule("DELETE", "/v1/browsers/br_1", 200, {"id": "br_1", "status": "deleted"}))
    node.rules.append(Rule("DELETE", "/v1/browsers/br_1", 404, {"error": "gone"}))
    browser = await Browser.connect("br_1", api_key=node.api_key, api_url=node.url)
    assert browser == _BROWSER
    await browser.delete()
    with pytest.raises(NotFoundError):
        await browser.delete()
    await browser.close()


async def test_what_came_from_no_server_cannot_be_ended() -> None:
    with pytest.raises(ValueError, match="has no server"):
        await replace(_BROWSER).delete()


async def test_the_address_is_that_of_browsers_else_the_root_of_the_own_server(
    node: FakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENCOMPUTER_API_KEY", node.api_key)
    monkeypatch.setenv("OPENCOMPUTER_API_URL", f"{node.url}/api/")
    node.rules += [Rule("GET", "/v1/browsers/br_1", 200, _ANSWER, times=2)]
    await (await Browser.connect("br_1")).close()
    monkeypatch.setenv("OPENCOMPUTER_API_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("OPENCOMPUTER_BROWSER_API_URL", node.url)
    await (await Browser.connect("br_1")).close()
    assert len(node.seen) == 2


async def test_a_server_without_browsers_says_so(node: FakeNode) -> None:
    node.rules += [
        Rule(method, path, 501, UNSUPPORTED)
        for method, path in (("POST", "/v1/browsers"), ("GET", "/v1/profiles"))
    ]
    with pytest.raises(NotSupportedError):
        await Browser.create(api_key=node.api_key, api_url=node.url)
    with pytest.raises(NotSupportedError):
        await BrowserProfile.list(api_key=node.api_key, api_url=node.url)


async def test_profiles_are_made_listed_found_and_deleted(node: FakeNode) -> None:
    where = {"api_key": node.api_key, "api_url": node.url}
    node.rules += [
        Rule("POST", "/v1/profiles", 201, _PROFILE_ANSWER, times=2),
        Rule("GET", "/v1/profiles", 200, {"profiles": [_PROFILE_ANSWER]}),
        Rule("GET", "/v1/profiles/my shop", 200, _PROFILE_ANSWER),
        Rule("DELETE", "/v1/profiles/prof_1", 200, {"id": "prof_1", "status": "deleted"}),
    ]
    made = [await BrowserProfile.create(**where, name="shop"), await BrowserProfile.create(**where)]
    (listed,) = await BrowserProfile.list(**where)
    found = await BrowserProfile.connect("my shop", **where)
    assert [*made, listed, found] == [_PROFILE] * 4
    await found.delete()
    assert [(seen.method, seen.body) for seen in node.seen] == [
        ("POST", {"name": "shop"}),
        ("POST", {}),
        ("GET", None),
        ("GET", None),
        ("DELETE", None),
    ]
    for profile in (*made, listed, found):
        await profile.close()


async def check_of(node: FakeNode, *, last: dict[str, object]) -> AuthCheck:
    node.rules += [
        Rule("GET", "/v1/profiles/prof_1", 200, _PROFILE_ANSWER),
        Rule("POST", _CHECKS, 201, {"id": "chk/1", "status": "queued"}),
        Rule("GET", f"{_CHECKS}/chk/1", 200, {"id": "chk/1", "status": "running"}),
        Rule("GET", f"{_CHECKS}/chk/1", 200, last),
    ]
    profile = await BrowserProfile.connect("prof_1", api_key=node.api_key, api_url=node.url)
    check = await profile.check_auth("https://shop.example", "me", "fast", True)
    assert node.seen[-1].body == {
        "homepage": "https://shop.example",
        "user": "me",
        "mode": "fast",
        "compare_fresh": True,
    }
    return check


async def test_a_check_of_a_login_is_asked_for_until_it_has_ended(node: FakeNode) -> None:
    check = await check_of(node, last={"id": "chk/1", "status": "completed", "authenticated": True})
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    assert (check.id, check.status, check.finished) == ("chk/1", "queued", False)
    ended = await check.wait(interval=0.5, sleep=sleep)
    assert ended is check
    assert (check.finished, check.raw["authenticated"], slept) == (True, True, [0.5, 0.5])


async def test_a_check_that_goes_on_too_long_is_a_timeout(node: FakeNode) -> None:
    check = await check_of(node, last={"id": "chk/1", "status": "running"})
    with pytest.raises(TimeoutError):
        await check.wait(interval=60, timeout=0.01)
    assert not (await check.refresh()).finished
