"""Who calls /v3, and with what (agent-sessions.md section 2.3).

Routes take `OrgKey`; only those that a client token opens too take `Reader`, `StreamReader` or `Steerer`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any

from fastapi import Depends, Request
from starlette.requests import HTTPConnection

from opencomputer.server.domain.access import KeyCaller
from opencomputer.server.domain.errors import Forbidden, Unauthenticated
from opencomputer.server.domain.naming import API_KEY_PREFIX
from opencomputer.server.domain.sessions.access import Scope, SessionCaller, check_session
from opencomputer.server.http.auth import SCHEMES as SANDBOX_API_SCHEMES
from opencomputer.server.http.auth import services_of
from opencomputer.server.services.facade import Services
from opencomputer.server.services.sessions.facade import DurableServices

EVENT_STREAM = "text/event-stream"
_NOBODY = "a valid API key, or client token, is required"


def durable_of(connection: HTTPConnection) -> DurableServices:
    """The services of durable sessions."""
    return services_of(connection).durable


async def _durable(connection: HTTPConnection) -> DurableServices:
    return durable_of(connection)


def wants_stream(connection: HTTPConnection) -> bool:
    """Whether a request for events is for the stream of them."""
    accepted = [part.partition(";")[0].strip() for part in connection.headers.get("accept", "").split(",")]
    return connection.query_params.get("stream") == "sse" or EVENT_STREAM in accepted


async def _caller_of(connection: HTTPConnection, *, token_in_query: bool = False) -> SessionCaller:
    """The first credential that is present decides; a wrong one is never passed over for another."""
    services, headers = services_of(connection), connection.headers
    authorization = headers.get("authorization")
    if authorization is not None:
        scheme, _, secret = authorization.partition(" ")
        if scheme.lower() != "bearer":
            raise Unauthenticated(_NOBODY)
        return await _bearer(services, secret.strip())
    key, token = headers.get("x-api-key"), connection.query_params.get("token")
    if key is None and token and token_in_query:
        return services.durable.client_tokens.read(token)
    return await _by_key(services, key or "")


async def _bearer(services: Services, secret: str) -> SessionCaller:
    if secret.startswith("eyJ"):
        return services.durable.client_tokens.read(secret)
    return await _by_key(services, secret)


async def _by_key(services: Services, secret: str) -> KeyCaller:
    # The rest of the server has tokens of its own, which are for sandboxes.
    if not secret.startswith(API_KEY_PREFIX):
        raise Unauthenticated(_NOBODY)
    caller = await services.access.authenticate(secret)
    assert isinstance(caller, KeyCaller)
    return caller


async def _require_key(request: Request) -> KeyCaller:
    caller = await _caller_of(request)
    if not isinstance(caller, KeyCaller):
        raise Forbidden("a client token does not permit this; use an API key")
    return caller


async def _require_reader(request: Request) -> SessionCaller:
    return _checked(request, await _caller_of(request), Scope.READ)


async def _require_stream_reader(request: Request) -> SessionCaller:
    caller = await _caller_of(request, token_in_query=wants_stream(request))
    return _checked(request, caller, Scope.READ)


async def _require_steerer(request: Request) -> SessionCaller:
    return _checked(request, await _caller_of(request), Scope.STEER)


def _checked(request: Request, caller: SessionCaller, scope: Scope) -> SessionCaller:
    check_session(caller, request.path_params["session_id"], scope)
    return caller


_KEY = ("apiKey", "bearer")
CREDENTIALS: Mapping[Callable[..., object], tuple[str, ...]] = {
    _require_key: _KEY,
    _require_reader: (*_KEY, "clientToken"),
    _require_stream_reader: (*_KEY, "clientToken"),
    _require_steerer: (*_KEY, "clientToken"),
}
"""What each of these takes, in the words of the OpenAPI document."""
SCHEMES: Mapping[str, dict[str, Any]] = {
    **{scheme: SANDBOX_API_SCHEMES[scheme] for scheme in _KEY},
    "clientToken": {
        "type": "http",
        "scheme": "bearer",
        "description": "a token for the session in the path; of streams in the query as `token`",
    },
}

Durable = Annotated[DurableServices, Depends(_durable)]
OrgKey = Annotated[KeyCaller, Depends(_require_key)]
Reader = Annotated[SessionCaller, Depends(_require_reader)]
"""May read the session of the path, which the path calls `session_id`; whether there is one is not known."""
StreamReader = Annotated[SessionCaller, Depends(_require_stream_reader)]
"""The same, for the one route that is a stream too: a token may stand in the query of a stream's address."""
Steerer = Annotated[SessionCaller, Depends(_require_steerer)]
"""May say something to the session of the path."""
