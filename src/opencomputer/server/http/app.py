"""All routes and middleware, in one place."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from fastapi import APIRouter, FastAPI
from starlette.middleware.cors import CORSMiddleware

from opencomputer.server.http import device_logins, health
from opencomputer.server.http.access_log import AccessLog
from opencomputer.server.http.activity import ActivityTracker
from opencomputer.server.http.auth import CREDENTIALS, SCHEMES
from opencomputer.server.http.description import Conventions, describe
from opencomputer.server.http.errors import install_error_handlers
from opencomputer.server.http.previews import PreviewHosts
from opencomputer.server.http.sandbox_api import (
    agents,
    allowed_hosts,
    api_keys,
    audit,
    checkpoints,
    diffs,
    exec,
    exec_socket,
    files,
    forks,
    hibernation,
    images,
    logs,
    patches,
    power,
    previews,
    sandboxes,
    scaling,
    secret_stores,
    signed_files,
    snapshots,
    tags,
    templates,
    terminal_socket,
    terminals,
    unsupported,
    usage,
    webhooks,
)
from opencomputer.server.http.session_api.app import SessionApiPaths
from opencomputer.server.services.facade import Services
from opencomputer.wire.refusals import Refusal

Lifespan = Callable[[], AbstractAsyncContextManager[None]]

_DATA_PLANE = (
    sandboxes.data_plane,
    exec.router,
    exec_socket.router,
    terminals.router,
    terminal_socket.router,
    agents.router,
    files.router,
    signed_files.router,
)
# Fixed segments are matched before parameters: these stand before all that have a sandbox's id there.
_FIXED = (forks.by_checkpoint, checkpoints.by_checkpoint, patches.router)
_CONTROL = (
    api_keys.router,
    templates.router,
    checkpoints.router,
    forks.router,
    hibernation.router,
    power.router,
    scaling.router,
    diffs.router,
    audit.router,
    logs.router,
    signed_files.control,
    images.router,
    snapshots.router,
    previews.router,
    secret_stores.router,
    allowed_hosts.router,
    tags.router,
    usage.router,
    webhooks.router,
    unsupported.router,
    sandboxes.control,
)

_CONVENTIONS = Conventions(
    summary="Sandboxes: isolated Linux machines, and all that is done with them",
    refusal=Refusal,
    schemes=SCHEMES,
    credentials=CREDENTIALS,
    headers={sandboxes.idempotency_key: sandboxes.IDEMPOTENCY_HEADER},
)
_EXPOSED = (
    "X-Request-Id",
    "Retry-After",
    "X-Next-Cursor",
    "Accept-Ranges",
    "Content-Disposition",
    "Content-Range",
)


def create_app(services: Services, lifespan: Lifespan | None = None) -> FastAPI:
    """The public application. `lifespan` is entered before the first request and left after the last."""

    @asynccontextmanager
    async def run(app: FastAPI) -> AsyncGenerator[None]:
        if lifespan is None:
            app.state.ready = True
            yield
            return
        async with lifespan():
            app.state.ready = True
            yield
            app.state.ready = False

    app = FastAPI(
        title="OpenComputer",
        lifespan=run,
        redirect_slashes=False,
        docs_url=None,
        redoc_url=None,
        openapi_url="/api/openapi.json",
    )
    app.state.services = services
    app.state.ready = False
    app.state.metrics = health.make_registry(services)
    install_error_handlers(app)
    app.include_router(health.router)
    app.include_router(device_logins.router)
    app.include_router(_joined(*_FIXED, *_DATA_PLANE, *_CONTROL), prefix="/api")
    app.include_router(unsupported.optional)
    # Clients that talk to `connectURL` leave the prefix out.
    app.include_router(_joined(*_DATA_PLANE), include_in_schema=False)
    below_api = [("/api", each) for each in (*_FIXED, *_DATA_PLANE, *_CONTROL)]
    describe(app, [("", health.router), ("", device_logins.router), *below_api], _CONVENTIONS)
    _surround(app, services)
    return app


def _surround(app: FastAPI, services: Services) -> None:
    """The middleware, from the inside out."""
    app.add_middleware(
        CORSMiddleware,
        allow_origins=["*"],
        allow_methods=["*"],
        allow_headers=["*"],
        expose_headers=_EXPOSED,
    )
    app.add_middleware(ActivityTracker)
    app.add_middleware(SessionApiPaths, services=services)
    app.add_middleware(AccessLog, registry=app.state.metrics)
    app.add_middleware(PreviewHosts, services=services)


def _joined(*routers: APIRouter) -> APIRouter:
    joined = APIRouter(redirect_slashes=False)
    for router in routers:
        joined.include_router(router)
    return joined
