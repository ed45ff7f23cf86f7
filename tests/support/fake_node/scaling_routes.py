"""Sizes on the fake: every size is free, until it is locked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.responses import JSONResponse, Response

if TYPE_CHECKING:
    from tests.support.fake_node.routes import Call

_CPU_PERCENT = {1024: 100, 4096: 100, 8192: 200, 16384: 400}


async def _scale(call: Call) -> Response:
    description = call.sandbox.description
    if description.get("locked"):
        body = {"error": "The size of this sandbox is locked.", "code": "scaling_locked"}
        return JSONResponse(body, 403)
    memory_mb = call.json["memoryMB"]
    description["memoryMB"] = memory_mb
    was_on = bool(description.pop("autoscale", False))
    view = {"sandboxID": call.params["id"], "memoryMB": memory_mb, "cpuPercent": _CPU_PERCENT[memory_mb]}
    return JSONResponse(view | {"ok": True, "migrated": False, "autoscaleDisabled": was_on})


async def _set_autoscale(call: Call) -> Response:
    description = call.sandbox.description
    description["autoscale"] = call.json["enabled"]
    for name in ("minMemoryMB", "maxMemoryMB"):
        description[name] = call.json.get(name, description.get(name))
    return await _get_autoscale(call)


async def _get_autoscale(call: Call) -> Response:
    description = call.sandbox.description
    view: dict[str, object] = {
        "sandboxID": call.params["id"],
        "enabled": bool(description.get("autoscale")),
        "minMemoryMB": description.get("minMemoryMB") or 4096,
        "maxMemoryMB": description.get("maxMemoryMB") or 16384,
    }
    return JSONResponse(view)


async def _set_lock(call: Call) -> Response:
    call.sandbox.description["locked"] = call.json["locked"]
    return await _get_lock(call)


async def _get_lock(call: Call) -> Response:
    locked = bool(call.sandbox.description.get("locked"))
    return JSONResponse({"sandboxID": call.params["id"], "locked": locked})


ROUTES = [
    ("POST", "/scale", _scale),
    ("PUT", "/autoscale", _set_autoscale),
    ("GET", "/autoscale", _get_autoscale),
    ("PUT", "/scaling-lock", _set_lock),
    ("GET", "/scaling-lock", _get_lock),
]
