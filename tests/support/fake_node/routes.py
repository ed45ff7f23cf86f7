"""The HTTP and WebSocket routes of the fake."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, cast

from starlette.applications import Starlette
from starlette.requests import HTTPConnection, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route, WebSocketRoute
from starlette.websockets import WebSocket

from tests.support.fake_node import (
    durable_routes,
    files_routes,
    image_routes,
    log_routes,
    preview_routes,
    process_routes,
    scaling_routes,
    socket_routes,
    state_routes,
)
from tests.support.fake_node.node import FakeNode, FakeSandbox, Rule, Seen

if TYPE_CHECKING:
    Handler = Callable[["Call"], Awaitable[Response]]


class Refused(Exception):
    """Ends a handler with an error answer."""

    def __init__(self, status: int, error: str, code: str) -> None:
        super().__init__(error)
        self.response = JSONResponse({"error": error, "code": code}, status)


class Call:
    """One request with what handlers need of it."""

    def __init__(self, node: FakeNode, connection: HTTPConnection, raw: bytes = b"") -> None:
        self.node = node
        self.method = str(connection.scope.get("method", ""))
        self.params = connection.path_params
        self.query = dict(connection.query_params)
        self.headers = dict(connection.headers)
        self.raw = raw

    @property
    def json(self) -> dict[str, Any]:
        """The JSON body, an absent one as an empty object."""
        return cast("dict[str, Any]", json.loads(self.raw or b"{}"))

    @property
    def sandbox(self) -> FakeSandbox:
        """The sandbox that the path names."""
        sandbox = self.node.sandboxes.get(self.params["id"])
        if sandbox is None:
            raise Refused(404, "There is no such sandbox.", "not_found")
        if sandbox.description["status"] == "stopped":
            raise Refused(410, "The sandbox is stopped.", "sandbox_stopped")
        return sandbox

    def authorise(self) -> None:
        """Refuse who shows neither the key nor the sandbox's token."""
        shown = {
            self.headers.get("x-api-key"),
            self.headers.get("authorization", "").removeprefix("Bearer "),
            self.query.get("api_key"),
            self.query.get("token"),
        }
        if self.node.api_key not in shown and f"token-of-{self.params.get('id')}" not in shown:
            raise Refused(401, "A valid API key is required.", "unauthorized")


_NO_CONTENT = 204
_OF_SANDBOXES = [
    *process_routes.ROUTES,
    *files_routes.ROUTES,
    *log_routes.ROUTES,
    *state_routes.ROUTES,
    *scaling_routes.ROUTES,
    *preview_routes.ROUTES,
]


def application(node: FakeNode) -> Starlette:
    """The whole fake as an ASGI application, with and without the `/api` prefix."""

    def http(method: str, path: str, handler: Handler) -> Route:
        async def endpoint(request: Request) -> Response:
            return await _handled(node, request, handler)

        return Route(path, endpoint, methods=[method])

    def socket(path: str, handler: Callable[[Call, WebSocket], Awaitable[None]]) -> WebSocketRoute:
        async def endpoint(websocket: WebSocket) -> None:
            call = Call(node, websocket)
            try:
                _record(node, "WS", websocket, call)
                call.authorise()
                await handler(call, websocket)
            except Refused as refusal:
                await websocket.send_denial_response(refusal.response)

        return WebSocketRoute(path, endpoint)

    one = "/sandboxes/{id}"
    routes = [
        *(http(method, path, handler) for method, path, handler in state_routes.BY_CHECKPOINT),
        *(http(method, path, handler) for method, path, handler in image_routes.ROUTES),
        http("POST", "/sandboxes", _create),
        http("GET", "/sandboxes", _list),
        http("GET", one, _get),
        http("DELETE", one, _kill),
        http("POST", f"{one}/timeout", _set_timeout),
        http("GET", "/api-keys", _list_keys),
        http("POST", "/api-keys", _create_key),
        http("DELETE", "/api-keys/{key}", _revoke_key),
        *(http(method, one + path, handler) for method, path, handler in _OF_SANDBOXES),
        socket(f"{one}/exec/{{sid}}", socket_routes.follow_session),
        socket(f"{one}/pty/{{sid}}", socket_routes.follow_terminal),
    ]
    durable = [http(method, path, handler) for method, path, handler in durable_routes.ROUTES]
    rest = [http(method, "/{rest:path}", _unknown) for method in ("GET", "POST", "PUT", "PATCH", "DELETE")]
    groups = {"/v3": [*durable, *rest], "/v1": rest, "/api": [*routes, *rest]}
    return Starlette(routes=[*(Mount(root, routes=known) for root, known in groups.items()), *routes, *rest])


async def _handled(node: FakeNode, request: Request, handler: Handler) -> Response:
    call = Call(node, request, await request.body())
    path = _record(node, request.method, request, call)
    for rule in node.rules:
        if rule.times and (rule.method, rule.path) == (request.method, path):
            rule.times -= 1
            return _told(rule)
    try:
        call.authorise()
        return await handler(call)
    except Refused as refusal:
        return refusal.response


def _told(rule: Rule) -> Response:
    if rule.status == _NO_CONTENT or isinstance(rule.body, str | bytes):
        return Response(rule.body, rule.status, rule.headers)
    return JSONResponse(rule.body, rule.status, rule.headers)


async def _unknown(_: Call) -> Response:
    raise Refused(404, "There is no such path.", "not_found")


def _record(node: FakeNode, method: str, connection: HTTPConnection, call: Call) -> str:
    path = connection.url.path.removeprefix("/api")
    try:
        body: object = json.loads(call.raw) if call.raw else None
    except ValueError:
        body = call.raw
    node.seen.append(Seen(method, path, call.query, call.headers, body))
    return path


async def _create(call: Call) -> Response:
    fields = {name: call.json[name] for name in ("templateID", "metadata") if name in call.json}
    sandbox = call.node.add_sandbox(**fields)
    sandbox.env.update(call.json.get("envs", {}))
    token = {"previewAuthToken": "a-preview-token"} if call.json.get("previewAuth") else {}
    return image_routes.built(call, sandbox.description | token)


async def _list(call: Call) -> Response:
    known = [sandbox.description for sandbox in call.node.sandboxes.values()]
    return JSONResponse([one for one in reversed(known) if one["status"] != "stopped"])


async def _get(call: Call) -> Response:
    sandbox = call.node.sandboxes.get(call.params["id"])
    if sandbox is None:
        raise Refused(404, "There is no such sandbox.", "not_found")
    return JSONResponse(sandbox.description)


async def _kill(call: Call) -> Response:
    sandbox = call.node.sandboxes.get(call.params["id"])
    if sandbox is None:
        raise Refused(404, "There is no such sandbox.", "not_found")
    sandbox.description["status"] = "stopped"
    return Response(status_code=204)


async def _set_timeout(call: Call) -> Response:
    call.sandbox.description["timeout"] = call.json["timeout"]
    return Response(status_code=204)


async def _list_keys(call: Call) -> Response:
    return JSONResponse(list(call.node.keys.values()))


async def _create_key(call: Call) -> Response:
    key_id = f"key-{call.node.next_id()}"
    known: dict[str, object] = {
        "id": key_id,
        "name": call.json["name"],
        "prefix": "osb_feed",
        "createdAt": call.node.now(),
        "lastUsedAt": None,
        "revokedAt": None,
    }
    call.node.keys[key_id] = known
    return JSONResponse(known | {"key": "osb_" + "feed" * 16}, 201)


async def _revoke_key(call: Call) -> Response:
    if call.params["key"] not in call.node.keys:
        raise Refused(404, "There is no such key.", "not_found")
    call.node.keys[call.params["key"]]["revokedAt"] = call.node.now()
    return Response(status_code=204)
