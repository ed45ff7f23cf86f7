"""All routes of /v3. An application of its own, because its errors and its CORS rules are its own."""

from __future__ import annotations

from fastapi import APIRouter, FastAPI
from starlette.types import ASGIApp, Receive, Scope, Send

from opencomputer.server.http.session_api import (
    agents,
    client_tokens,
    credentials,
    deliveries,
    deployments,
    destinations,
    events,
    joint_checkpoints,
    messages,
    sessions,
    skills,
    unsupported,
)
from opencomputer.server.http.session_api.browsers import CrossOrigin
from opencomputer.server.http.session_api.errors import install_error_handlers
from opencomputer.server.services.facade import Services

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
    skills.router,
    credentials.router,
)


def create_session_api(services: Services) -> ASGIApp:
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
    app.include_router(unsupported.agent_urls)
    return CrossOrigin(app)


class SessionApiPaths:
    """Middleware that hands over what is below /v3, and the URLs of agents."""

    def __init__(self, app: ASGIApp, services: Services) -> None:
        self._app = app
        self._session_api = create_session_api(services)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path: str = scope.get("path", "")
        below = path == PREFIX or path.startswith((f"{PREFIX}/", unsupported.AGENT_URL_PREFIX))
        await (self._session_api if below and scope["type"] != "lifespan" else self._app)(
            scope, receive, send
        )
