"""Previews on the fake: records, grants and a token that is counted."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from starlette.responses import JSONResponse, Response

if TYPE_CHECKING:
    from tests.support.fake_node.routes import Call

Records = dict[str, dict[str, object]]


def _host(call: Call, port: object) -> str:
    description = call.sandbox.description
    return f"{description['sandboxID']}-p{port}.{description['sandboxDomain']}"


def _kept(call: Call, what: str) -> Records:
    return cast("Records", call.sandbox.description.setdefault(what, {}))


async def _create(call: Call) -> Response:
    port, sandbox_id = call.json["port"], call.params["id"]
    view: dict[str, object] = {
        "id": "pv-1",
        "sandboxId": sandbox_id,
        "hostname": _host(call, port),
        "url": f"http://{_host(call, port)}:8080",
        "port": port,
        "sslStatus": "active",
        "authConfig": call.json["authConfig"],
        "createdAt": call.node.now(),
    }
    if call.json.get("domain"):
        view["customHostname"] = f"{sandbox_id}-p{port}.{call.json['domain']}"
    return JSONResponse(_kept(call, "previews").setdefault(str(port), view), 201)


async def _list(call: Call) -> Response:
    return JSONResponse(list(_kept(call, "previews").values()))


async def _delete(call: Call) -> Response:
    return _gone(_kept(call, "previews").pop(call.params["port"], None))


async def _rotate(call: Call) -> Response:
    return JSONResponse({"previewAuthToken": "a-new-preview-token", "scheme": "bearer"})


async def _grant(call: Call) -> Response:
    grants = _kept(call, "grants")
    view: dict[str, object] = {
        "id": f"gr-{len(grants) + 1}",
        "sandboxId": call.params["id"],
        "port": int(call.params["port"]),
        "createdAt": call.node.now(),
        "expiresAt": "2026-01-01T13:00:00Z",
    }
    grants[cast("str", view["id"])] = view
    secret = f"a-secret-for-{call.json['ttl']}-seconds"
    url = f"http://{_host(call, call.params['port'])}:8080/?oc_preview_grant={secret}"
    return JSONResponse(view | {"url": url}, 201)


async def _grants(call: Call) -> Response:
    return JSONResponse(list(_kept(call, "grants").values()))


async def _revoke(call: Call) -> Response:
    return _gone(_kept(call, "grants").pop(call.params["grant"], None))


def _gone(removed: object) -> Response:
    if removed is None:
        return JSONResponse({"error": "There is no such thing.", "code": "not_found"}, 404)
    return Response(status_code=204)


ROUTES = [
    ("POST", "/preview", _create),
    ("GET", "/preview", _list),
    ("POST", "/preview/rotate", _rotate),
    ("DELETE", "/preview/{port}", _delete),
    ("POST", "/preview/{port}/grants", _grant),
    ("GET", "/preview/{port}/grants", _grants),
    ("DELETE", "/preview/{port}/grants/{grant}", _revoke),
]
