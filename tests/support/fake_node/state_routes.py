"""Checkpoint, fork, patch, sleep and diff routes of the fake: what is saved is the sandbox's description."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from starlette.responses import JSONResponse, Response

if TYPE_CHECKING:
    from tests.support.fake_node.node import FakeSandbox
    from tests.support.fake_node.routes import Call

_ORG = "00000000-0000-0000-0000-00000000000a"


async def _create_checkpoint(call: Call) -> Response:
    sandbox_id = call.sandbox.description["sandboxID"]
    name = call.json["name"]
    if any(each["name"] == name and each["sandboxId"] == sandbox_id for each in _checkpoints(call)):
        return _refusal(409, "A checkpoint of this sandbox has this name.", "conflict")
    checkpoint_id = f"cp-{call.node.next_id()}"
    call.node.checkpoints[checkpoint_id] = {
        "id": checkpoint_id,
        "sandboxId": sandbox_id,
        "orgId": _ORG,
        "name": name,
        "kind": call.json.get("kind") or "full",
        "status": "processing",
        "sizeBytes": 0,
        "createdAt": call.node.now(),
        "isPublic": False,
    }
    return JSONResponse(call.node.checkpoints[checkpoint_id], 201)


async def _list_checkpoints(call: Call) -> Response:
    found = [each for each in _checkpoints(call) if each["sandboxId"] == call.params["id"]]
    answer = JSONResponse(found[::-1])
    # What a caller sees as in progress is over when it looks again.
    for each in found:
        if each["status"] == "processing":
            each.update(call.node.checkpoint_ends)
    return answer


def _checkpoints(call: Call) -> list[dict[str, object]]:
    return list(call.node.checkpoints.values())


async def _delete_checkpoint(call: Call) -> Response:
    return _gone(call.node.checkpoints.pop(call.params["cid"], None), "checkpoint")


async def _restore(call: Call) -> Response:
    sandbox = call.sandbox
    if call.params["cid"] not in call.node.checkpoints:
        return _not_found("checkpoint")
    for session in sandbox.sessions.values():
        session.exit(137)
    sandbox.description["token"] = f"token-of-{call.params['id']}"
    view = {"sandboxId": call.params["id"], "checkpointId": call.params["cid"], "status": "restoring"}
    return JSONResponse(view)


async def _publish(call: Call) -> Response:
    return _made_public(call, True)


async def _unpublish(call: Call) -> Response:
    return _made_public(call, False)


def _made_public(call: Call, public: bool) -> Response:
    found = call.node.checkpoints.get(call.params["cid"])
    if found is None:
        return _not_found("checkpoint")
    found["isPublic"] = public
    return JSONResponse(found)


async def _from_checkpoint(call: Call) -> Response:
    found = call.node.checkpoints.get(call.params["cid"])
    if found is None:
        return _not_found("checkpoint")
    made = _forked(call, fromCheckpointId=call.params["cid"], memoryRestored=found["kind"] == "full")
    return JSONResponse(made, 201)


async def _fork(call: Call) -> Response:
    source = call.sandbox
    made = [_forked(call, memoryRestored=True) for _ in range(call.json.get("count") or 1)]
    for each in made:
        call.node.sandboxes[str(each["sandboxID"])].files.update(source.files)
    return JSONResponse(made, 201)


def _forked(call: Call, **fields: object) -> dict[str, object]:
    inherited = {name: call.json[name] for name in ("metadata", "memoryMB") if name in call.json}
    sandbox: FakeSandbox = call.node.add_sandbox(**inherited, **fields)
    sandbox.env.update(call.json.get("envs", {}))
    return sandbox.description


async def _create_patch(call: Call) -> Response:
    checkpoint_id = call.params["cid"]
    if checkpoint_id not in call.node.checkpoints:
        return _not_found("checkpoint")
    known = call.node.patches.setdefault(checkpoint_id, {})
    sequence = next(call.node.patch_numbers.setdefault(checkpoint_id, itertools.count(1)))
    patch: dict[str, object] = {
        "id": f"pa-{call.node.next_id()}",
        "checkpointId": checkpoint_id,
        "sequence": sequence,
        "script": call.json["script"],
        "description": call.json.get("description"),
        "strategy": "on_wake",
        "createdAt": call.node.now(),
    }
    known[str(patch["id"])] = patch
    return JSONResponse({"patch": patch}, 201)


async def _list_patches(call: Call) -> Response:
    return JSONResponse(list(call.node.patches.get(call.params["cid"], {}).values()))


async def _delete_patch(call: Call) -> Response:
    known = call.node.patches.get(call.params["cid"], {})
    return _gone(known.pop(call.params["pid"], None), "patch")


async def _hibernate(call: Call) -> Response:
    call.sandbox.description["status"] = "hibernated"
    view: dict[str, object] = {"sandboxID": call.params["id"], "status": "hibernated"}
    return JSONResponse(view | {"hibernationKey": "hi-1", "sizeBytes": 3 << 20})


async def _wake(call: Call) -> Response:
    description = call.sandbox.description
    description["status"] = "running"
    if "timeout" in call.json:
        description["timeout"] = call.json["timeout"]
    return JSONResponse(description)


async def _reboot(call: Call) -> Response:
    for session in call.sandbox.sessions.values():
        session.exit(137)
    return Response(status_code=204)


async def _diff(call: Call) -> Response:
    known = {"from": call.query.get("from")} if "from" in call.query else {}
    if known and known["from"] not in call.node.checkpoints:
        return _not_found("checkpoint")
    return JSONResponse({"changes": call.node.changes})


async def _audit(call: Call) -> Response:
    return JSONResponse({"events": [], "next": int(call.query.get("after", "0"))})


def _gone(what: object, name: str) -> Response:
    return Response(status_code=204) if what is not None else _not_found(name)


def _not_found(name: str) -> Response:
    return _refusal(404, f"There is no such {name}.", "not_found")


def _refusal(status: int, error: str, code: str) -> Response:
    return JSONResponse({"error": error, "code": code}, status)


# Fixed segments first: a checkpoint may have any id.
BY_CHECKPOINT = [
    ("POST", "/sandboxes/from-checkpoint/{cid}", _from_checkpoint),
    ("POST", "/sandboxes/checkpoints/{cid}/publish", _publish),
    ("POST", "/sandboxes/checkpoints/{cid}/unpublish", _unpublish),
    ("POST", "/sandboxes/checkpoints/{cid}/patches", _create_patch),
    ("GET", "/sandboxes/checkpoints/{cid}/patches", _list_patches),
    ("DELETE", "/sandboxes/checkpoints/{cid}/patches/{pid}", _delete_patch),
]
ROUTES = [
    ("POST", "/checkpoints", _create_checkpoint),
    ("GET", "/checkpoints", _list_checkpoints),
    ("DELETE", "/checkpoints/{cid}", _delete_checkpoint),
    ("POST", "/checkpoints/{cid}/restore", _restore),
    ("POST", "/fork", _fork),
    ("POST", "/hibernate", _hibernate),
    ("POST", "/wake", _wake),
    ("POST", "/reboot", _reboot),
    ("POST", "/power-cycle", _reboot),
    ("GET", "/diff", _diff),
    ("GET", "/audit", _audit),
]
