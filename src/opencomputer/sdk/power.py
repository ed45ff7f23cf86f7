"""Requests that put a sandbox to sleep, wake it and start it anew."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opencomputer.sdk.control_plane import Call

if TYPE_CHECKING:
    from opencomputer.sdk.sandbox_link import SandboxLink

_HIBERNATE_SECONDS = 150.0
_WAKE_SECONDS = 90.0
_REBOOT_SECONDS = 120.0


def hibernate(link: SandboxLink) -> Call:
    """Asking twice is as good as asking once."""
    return Call("POST", link.path("hibernate"), repeatable=True, timeout_seconds=_HIBERNATE_SECONDS)


def wake(link: SandboxLink, timeout: int | None) -> Call:
    """Asking twice is as good as asking once. `timeout` None keeps the idle time that it has."""
    body = {} if timeout is None else {"timeout": timeout}
    path = link.path("wake")
    return Call("POST", path, repeatable=True, json=body, timeout_seconds=_WAKE_SECONDS)


def reboot(link: SandboxLink) -> Call:
    """Start its system again, with its machine kept where the server can."""
    return Call("POST", link.path("reboot"), timeout_seconds=_REBOOT_SECONDS)


def power_cycle(link: SandboxLink) -> Call:
    """Start it again on a new machine."""
    return Call("POST", link.path("power-cycle"), timeout_seconds=_REBOOT_SECONDS)
