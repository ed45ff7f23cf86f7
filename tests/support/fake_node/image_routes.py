"""Image and snapshot routes of the fake: building is telling the lines that a test wrote down."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from starlette.responses import JSONResponse, Response, StreamingResponse

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.fake_node.routes import Call

_ORG = "00000000-0000-0000-0000-00000000000a"


def built(call: Call, result: dict[str, object], status: int = 201) -> Response:
    """The answer to a call that builds: a stream, in pieces that respect no border, or JSON."""
    if call.headers.get("accept") != "text/event-stream":
        return JSONResponse(result, status)
    frames: list[tuple[str, dict[str, object]]] = [
        ("build_log", {"step": 1, "type": "run", "message": message}) for message in call.node.build_log
    ]
    if call.node.build_error is not None:
        frames.append(("error", {"error": call.node.build_error}))
    elif not call.node.build_is_cut:
        frames.append(("result", result))
    text = "".join(f"event: {name}\ndata: {json.dumps(data)}\n\n: keepalive\n\n" for name, data in frames)
    return StreamingResponse(_pieces(text.encode()), media_type="text/event-stream")


async def _pieces(content: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(content), 7):
        yield content[start : start + 7]


async def _create_snapshot(call: Call) -> Response:
    name = call.json["name"]
    if name in call.node.snapshots:
        return JSONResponse({"error": "there is a snapshot of this name already", "code": "conflict"}, 409)
    in_background = call.query.get("async") == "1"
    snapshot = _view(call, name, "building" if in_background else "ready")
    call.node.snapshots[name] = snapshot
    return JSONResponse(snapshot, 202) if in_background else built(call, snapshot)


async def _list_snapshots(call: Call) -> Response:
    return JSONResponse(list(call.node.snapshots.values())[::-1])


async def _get_snapshot(call: Call) -> Response:
    found = call.node.snapshots.get(call.params["name"])
    if found is None:
        return _missing()
    answer = JSONResponse(found)
    # What a caller sees as in progress is over when it looks again.
    if found["status"] == "building":
        found.update(call.node.snapshot_ends)
    return answer


async def _delete_snapshot(call: Call) -> Response:
    found = call.node.snapshots.pop(call.params["name"], None)
    return _missing() if found is None else Response(status_code=204)


async def _build_image(call: Call) -> Response:
    view = _view(call, "", "ready")
    call.node.images.append(view)
    return built(call, view)


async def _list_images(call: Call) -> Response:
    return JSONResponse(call.node.images[::-1])


def _view(call: Call, name: str, status: str) -> dict[str, object]:
    made: dict[str, object] = {
        "id": f"im-{call.node.next_id()}",
        "orgId": _ORG,
        "name": name,
        "status": status,
        "contentHash": "c0ffee" * 10 + "c0ff",
        "manifest": call.json["image"],
        "createdAt": call.node.now(),
    }
    return made | ({"checkpointId": "cp-of-image"} if status == "ready" else {})


def _missing() -> Response:
    return JSONResponse({"error": "there is no snapshot of this name", "code": "not_found"}, 404)


ROUTES = [
    ("POST", "/snapshots", _create_snapshot),
    ("GET", "/snapshots", _list_snapshots),
    ("GET", "/snapshots/{name}", _get_snapshot),
    ("DELETE", "/snapshots/{name}", _delete_snapshot),
    ("POST", "/images", _build_image),
    ("GET", "/images", _list_images),
]
