"""How a `Sandbox` comes from an answer of the server. Its connection is closed where none does."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from opencomputer.sdk import answers
from opencomputer.sdk.build_stream import LogCallback, build
from opencomputer.sdk.control_plane import Call, ControlPlane, post_once, with_timeout

if TYPE_CHECKING:
    from collections.abc import Callable

    from opencomputer.sdk.answers import JsonObject
    from opencomputer.sdk.endpoint import Endpoint

    Kind = Callable[[ControlPlane, JsonObject], "T"]

T = TypeVar("T")

_CREATE_SECONDS = 120.0


async def made(kind: Kind[T], endpoint: Endpoint, call: Call) -> T:
    """What a call that makes one answers with, on a connection of its own."""
    return await opened(kind, ControlPlane(endpoint), call)


async def created(kind: Kind[T], endpoint: Endpoint, body: JsonObject, on_log: LogCallback | None) -> T:
    """What a create ends with. From an image or a snapshot something may be built first."""
    if not body.keys() & {"image", "snapshot"}:
        return await made(kind, endpoint, with_timeout(post_once("/sandboxes", body), _CREATE_SECONDS))
    plane = ControlPlane(endpoint)
    try:
        return kind(plane, await build(plane, Call("POST", "/sandboxes", json=body), on_log))
    except BaseException:
        await plane.aclose()
        raise


async def opened(kind: Kind[T], plane: ControlPlane, call: Call) -> T:
    """What a call answers with that describes one."""
    try:
        return kind(plane, answers.json_object(await plane.json(call)))
    except BaseException:
        await plane.aclose()
        raise
