"""Browsers that run elsewhere and are driven over WebSockets: `Browser`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from opencomputer.sdk import answers
from opencomputer.sdk.control_plane import Call, ControlPlane, get
from opencomputer.sdk.durable.bodies import set_members
from opencomputer.sdk.endpoint import Endpoint
from opencomputer.sdk.opening import made, opened
from opencomputer.sdk.paths import path_of

if TYPE_CHECKING:
    from opencomputer.sdk.answers import JsonObject


@dataclass
class Browser:
    """A browser session. Made by `create` or `connect`; connect tools such as Playwright to `cdp_ws_url`.

    Both WebSocket addresses carry their own credential. Browsers are an optional part of a server, and have
    an address of their own: `OPENCOMPUTER_BROWSER_API_URL`, else the root of `OPENCOMPUTER_API_URL`. What a
    server answers that does not offer them is `NotSupportedError`, `AuthError` or `UnavailableError`.
    """

    id: str
    provider: str
    provider_session_id: str
    status: str
    cdp_ws_url: str = field(repr=False)
    webdriver_ws_url: str = field(repr=False)
    live_view_url: str | None = field(default=None, repr=False)
    base_url: str | None = field(default=None, repr=False)
    headless: bool | None = None
    stealth: bool | None = None
    gpu: bool | None = None
    timeout_seconds: int | None = None
    created_at: str | None = None
    updated_at: str | None = None
    deleted_at: str | None = None
    _plane: ControlPlane | None = field(default=None, repr=False, compare=False)

    @classmethod
    async def create(
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
        body = set_members(
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
        call = Call("POST", "/v1/browsers", json=body)
        return await made(_browser, Endpoint.of_browsers(api_key, api_url), call)

    @classmethod
    async def connect(
        cls, browser_id: str, *, api_key: str | None = None, api_url: str | None = None
    ) -> Browser:
        """Take up a browser that exists. Raises `NotFoundError`."""
        plane = ControlPlane(Endpoint.of_browsers(api_key, api_url))
        return await opened(_browser, plane, get(_path(browser_id)))

    async def delete(self) -> None:
        """End the browser. Raises `NotFoundError` when it has ended."""
        await connection_of(self._plane).send(Call("DELETE", _path(self.id)))

    async def close(self) -> None:
        """Close the connection to the server; the browser itself goes on. May be called again."""
        if self._plane is not None:
            await self._plane.aclose()


def connection_of(plane: ControlPlane | None) -> ControlPlane:
    """The connection of something that came from a server."""
    if plane is None:
        raise ValueError("this was not made by create, connect or list, and so has no server")
    return plane


def _path(browser_id: str) -> str:
    return path_of("v1", "browsers", browser_id)


def _browser(plane: ControlPlane, answer: JsonObject) -> Browser:
    return Browser(
        id=answers.required_text(answer, "id"),
        provider=answers.text(answer, "provider", "kernel"),
        provider_session_id=answers.text(answer, "provider_session_id"),
        status=answers.text(answer, "status"),
        cdp_ws_url=answers.text(answer, "cdp_ws_url"),
        webdriver_ws_url=answers.text(answer, "webdriver_ws_url"),
        live_view_url=answers.text(answer, "live_view_url") or None,
        base_url=answers.text(answer, "base_url") or None,
        headless=answers.yes_or_no(answer, "headless"),
        stealth=answers.yes_or_no(answer, "stealth"),
        gpu=answers.yes_or_no(answer, "gpu"),
        timeout_seconds=answers.whole(answer, "timeout_seconds"),
        created_at=answers.text(answer, "created_at") or None,
        updated_at=answers.text(answer, "updated_at") or None,
        deleted_at=answers.text(answer, "deleted_at") or None,
        _plane=plane,
    )
