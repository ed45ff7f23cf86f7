"""All routes of /v3. An application of its own, because its errors and its CORS rules are its own."""

from __future__ import annotations

from fastapi import APIRouter, FastAPI
from starlette.types import ASGIApp, Receive, Scope, Send

from opencomputer.server.http.description import Conventions, describe
from opencomputer.server.http.session_api import (
    agent_urls,
    agents,
    client_tokens,
    credentials,
    deliveries,
    deployments,
    destinations,
    events,
    hooks,
    joint_checkpoints,
    messages,
    schedules,
    sessions,
    skills,
    unsupported,
)
from opencomputer.server.http.session_api.auth import CREDENTIALS, SCHEMES
from opencomputer.server.http.session_api.browsers import CrossOrigin
from opencomputer.server.http.session_api.errors import install_error_handlers
from opencomputer.server.http.session_api.idempotency import DESCRIPTION, key_of
from opencomputer.server.services.facade import Services
from opencomputer.wire.refusals import SessionRefusal

PREFIX = "/v3"
# Fixed segments are matched before parameters: what has some where others have an id stands first.
_ROUTERS: tuple[APIRouter, ...] = (
    unsupported.router,
    client_tokens.router,
    deliveries.router,
    destinations.router,
    events.router,
    joint_checkpoints.router,
    messages.router,
    sessions.router,
    agents.router,
    deployments.router,
    hooks.router,
    schedules.router,
    skills.router,
    credentials.router,
)


_CONVENTIONS = Conventions(
    summary="Durable agents and sessions",
    refusal=SessionRefusal,
    schemes=SCHEMES,
    credentials=CREDENTIALS,
    headers={key_of: DESCRIPTION},
)


def session_api(services: Services) -> FastAPI:
    """The routes, without what browsers of other origins need."""
    app = FastAPI(
        title="OpenComputer durable sessions",
        redirect_slashes=False,
        docs_url=None,
        redoc_url=None,
        openapi_url=f"{PREFIX}/openapi.json",
    )
    app.state.services = services
    install_error_handlers(app)
    for router in _ROUTERS:
        app.include_router(router, prefix=PREFIX)
    app.include_router(agent_urls.router)
    described = [*((PREFIX, each) for each in _ROUTERS), ("", agent_urls.router)]
    describe(app, described, _CONVENTIONS)
    return app


def create_session_api(services: Services) -> ASGIApp:
    return _for_browsers(session_api(services))


def _for_browsers(app: ASGIApp) -> ASGIApp:
    """Pages may call /v3. An agent's URL is for programs."""
    open_to_all = CrossOrigin(app)

    async def chosen(scope: Scope, receive: Receive, send: Send) -> None:
        path: str = scope.get("path", "")
        inner = app if path.startswith(agent_urls.AGENT_URL_PREFIX) else open_to_all
        await inner(scope, receive, send)

    return chosen


class SessionApiPaths:
    """Middleware that hands over what is below /v3, and the URLs of agents."""

    def __init__(self, app: ASGIApp, services: Services) -> None:
        self._app = app
        self._session_api = create_session_api(services)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path: str = scope.get("path", "")
        below = path == PREFIX or path.startswith((f"{PREFIX}/", agent_urls.AGENT_URL_PREFIX))
        await (self._session_api if below and scope["type"] != "lifespan" else self._app)(
            scope, receive, send
        )
