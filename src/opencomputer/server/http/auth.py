"""Where a credential may stand in a request, and what each route demands of it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Any

from fastapi import Depends, Request
from starlette.requests import HTTPConnection

from opencomputer.server.domain.access import Caller, KeyCaller, check_data_plane
from opencomputer.server.domain.errors import Forbidden, NotReady
from opencomputer.server.http.activity import begin_use
from opencomputer.server.services.facade import Services
from opencomputer.server.services.sandboxes.live import LiveSandbox
from opencomputer.wire.ids import OrgId, SandboxId

PATIENCE_SECONDS = 2.0
"""How long a caller waits for a sandbox that wakes, if it would rather be told to ask again."""


def services_of(connection: HTTPConnection) -> Services:
    """The bundle the application was made with."""
    return connection.app.state.services


async def _services(connection: HTTPConnection) -> Services:
    """Asynchronous, because each request would go to another thread for it otherwise."""
    return services_of(connection)


def credential_of(connection: HTTPConnection) -> str | None:
    """The first credential that is present decides; a wrong one is never passed over for another."""
    headers, query = connection.headers, connection.query_params
    scheme, _, bearer = headers.get("authorization", "").partition(" ")
    return (
        headers.get("x-api-key")
        or (bearer.strip() if scheme.lower() == "bearer" else None)
        or query.get("api_key")
        or query.get("token")
        or None
    )


async def caller_of(connection: HTTPConnection) -> Caller:
    return await services_of(connection).access.authenticate(credential_of(connection))


async def _require_key(request: Request) -> KeyCaller:
    caller = await caller_of(request)
    if not isinstance(caller, KeyCaller):
        raise Forbidden("a sandbox token does not permit this; use an API key")
    return caller


async def live_sandbox(connection: HTTPConnection, caller: Caller) -> LiveSandbox:
    """The running sandbox of the path, for a caller that may use its data plane. It is in use from now on."""
    sandbox_id = SandboxId(connection.path_params["sandbox_id"])
    check_data_plane(caller, sandbox_id)
    return await use_sandbox(connection, caller.org_id, sandbox_id)


async def use_sandbox(connection: HTTPConnection, org_id: OrgId, sandbox_id: SandboxId) -> LiveSandbox:
    """The sandbox as it runs, woken where it slept, for a caller who has shown that it may be used."""
    reaching = services_of(connection).reach.live(org_id, sandbox_id)
    asks_again = connection.headers.get("x-osb-async-wake") == "1"
    live = await (_soon(reaching) if asks_again else reaching)
    begin_use(connection, live)
    return live


async def _soon(reaching: Awaitable[LiveSandbox]) -> LiveSandbox:
    """For callers that understand `waking` (sandbox-wire.md section 2.1). The sandbox wakes all the same."""
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            return await reaching
    except TimeoutError as error:
        raise NotReady("the sandbox is waking; ask again shortly", waking=True) from error


async def _require_live(request: Request) -> LiveSandbox:
    return await live_sandbox(request, await caller_of(request))


async def _require_data_plane(request: Request) -> Caller:
    caller = await caller_of(request)
    check_data_plane(caller, SandboxId(request.path_params["sandbox_id"]))
    return caller


CREDENTIALS: Mapping[Callable[..., object], tuple[str, ...]] = {
    _require_key: ("apiKey", "bearer"),
    _require_live: ("apiKey", "bearer", "sandboxToken"),
    _require_data_plane: ("apiKey", "bearer", "sandboxToken"),
    caller_of: ("apiKey", "bearer", "sandboxToken"),
}
"""What each of these takes, in the words of the OpenAPI document."""
SCHEMES: Mapping[str, dict[str, Any]] = {
    "apiKey": {"type": "apiKey", "in": "header", "name": "X-API-Key", "description": "an API key"},
    "bearer": {"type": "http", "scheme": "bearer", "description": "an API key"},
    "sandboxToken": {
        "type": "http",
        "scheme": "bearer",
        "description": "the token of the sandbox in the path; sockets may have it in the query as `token`",
    },
}

ServicesOf = Annotated[Services, Depends(_services)]
Key = Annotated[KeyCaller, Depends(_require_key)]
Live = Annotated[LiveSandbox, Depends(_require_live)]
DataPlane = Annotated[Caller, Depends(_require_data_plane)]
