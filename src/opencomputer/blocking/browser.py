# Generated from src/opencomputer/sdk/browser.py by scripts/generate_blocking.py
"""The blocking twins of `opencomputer.sdk.browser`; see there."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from opencomputer.blocking.support.loop import run
from opencomputer.blocking.support.twin import Twin, view
from opencomputer.sdk import browser as sdk

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class Browser(Twin):
    """A browser session. Made by `create` or `connect`; connect tools such as Playwright to `cdp_ws_url`.

    Both WebSocket addresses carry their own credential. Browsers are an optional part of a server, and have
    an address of their own: `OPENCOMPUTER_BROWSER_API_URL`, else the root of `OPENCOMPUTER_API_URL`. What a
    server answers that does not offer them is `NotSupportedError`, `AuthError` or `UnavailableError`.
    """

    @property
    def id(self) -> str:
        return self._original.id

    @property
    def provider(self) -> str:
        return self._original.provider

    @property
    def provider_session_id(self) -> str:
        return self._original.provider_session_id

    @property
    def status(self) -> str:
        return self._original.status

    @property
    def cdp_ws_url(self) -> str:
        return self._original.cdp_ws_url

    @property
    def webdriver_ws_url(self) -> str:
        return self._original.webdriver_ws_url

    @property
    def live_view_url(self) -> str | None:
        return self._original.live_view_url

    @property
    def base_url(self) -> str | None:
        return self._original.base_url

    @property
    def headless(self) -> bool | None:
        return self._original.headless

    @property
    def stealth(self) -> bool | None:
        return self._original.stealth

    @property
    def gpu(self) -> bool | None:
        return self._original.gpu

    @property
    def timeout_seconds(self) -> int | None:
        return self._original.timeout_seconds

    @property
    def created_at(self) -> str | None:
        return self._original.created_at

    @property
    def updated_at(self) -> str | None:
        return self._original.updated_at

    @property
    def deleted_at(self) -> str | None:
        return self._original.deleted_at

    @classmethod
    def create(
        cls,
        *,
        api_key: str | None = None,
        api_url: str | None = None,
        name: str | None = None,
        tags: Mapping[str, str] | None = None,
        stealth: bool | None = None,
        headless: bool | None = None,
        gpu: bool | None = None,
        timeout_seconds: int | None = None,
        profile: Mapping[str, object] | None = None,
        extensions: Sequence[Mapping[str, str]] | None = None,
        proxy_id: str | None = None,
        viewport: Mapping[str, int] | None = None,
        kiosk_mode: bool | None = None,
        start_url: str | None = None,
        chrome_policy: Mapping[str, object] | None = None,
        telemetry: bool | Mapping[str, object] | None = None,
        recording: bool | None = None,
    ) -> Browser:
        """Start a browser. It ends after `timeout_seconds` without use.

        `profile` is `{"id": …}` or `{"name": …}`, with `"save_changes": True` to keep what changes in it.
        `viewport` is `{"width", "height", "refresh_rate"}`, an extension `{"id"}` or `{"name"}`.
        """
        return view(
            cls,
            run(
                sdk.Browser.create(
                    api_key=api_key,
                    api_url=api_url,
                    name=name,
                    tags=tags,
                    stealth=stealth,
                    headless=headless,
                    gpu=gpu,
                    timeout_seconds=timeout_seconds,
                    profile=profile,
                    extensions=extensions,
                    proxy_id=proxy_id,
                    viewport=viewport,
                    kiosk_mode=kiosk_mode,
                    start_url=start_url,
                    chrome_policy=chrome_policy,
                    telemetry=telemetry,
                    recording=recording,
                )
            ),
        )

    @classmethod
    def connect(cls, browser_id: str, *, api_key: str | None = None, api_url: str | None = None) -> Browser:
        """Take up a browser that exists. Raises `NotFoundError`."""
        return view(cls, run(sdk.Browser.connect(browser_id, api_key=api_key, api_url=api_url)))

    def delete(self) -> None:
        """End the browser. Raises `NotFoundError` when it has ended."""
        self._run(self._original.delete())

    def close(self) -> None:
        """Close the connection to the server; the browser itself goes on. May be called again."""
        self._run(self._original.close())

    @property
    def _original(self) -> sdk.Browser:
        return cast("sdk.Browser", self._wrapped)
