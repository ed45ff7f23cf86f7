"""The contract's routes as data: what this server offers, and what it says it does not."""

from __future__ import annotations

import re
from typing import Any

from tests.support.node import Api

# sandbox-wire.md sections 5 to 10 and 2.6: reachable with and without `/api`.
DATA_PLANE = [
    ("POST", "/sandboxes/{id}/timeout"),
    ("POST", "/sandboxes/{id}/exec/run"),
    ("POST", "/sandboxes/{id}/exec/run-async"),
    ("POST", "/sandboxes/{id}/commands"),
    ("GET", "/sandboxes/{id}/exec/{sid}/result"),
    ("POST", "/sandboxes/{id}/exec"),
    ("GET", "/sandboxes/{id}/exec"),
    ("POST", "/sandboxes/{id}/exec/{sid}/kill"),
    ("POST", "/sandboxes/{id}/pty"),
    ("GET", "/sandboxes/{id}/pty"),
    ("POST", "/sandboxes/{id}/pty/{sid}/resize"),
    ("DELETE", "/sandboxes/{id}/pty/{sid}"),
    ("POST", "/sandboxes/{id}/agent"),
    ("GET", "/sandboxes/{id}/agent"),
    ("POST", "/sandboxes/{id}/agent/{sid}/kill"),
    ("POST", "/sandboxes/{id}/agent/{sid}/prompt"),
    ("POST", "/sandboxes/{id}/agent/{sid}/interrupt"),
    ("GET", "/sandboxes/{id}/files?path=x"),
    ("PUT", "/sandboxes/{id}/files?path=x"),
    ("DELETE", "/sandboxes/{id}/files?path=x"),
    ("GET", "/sandboxes/{id}/files/list"),
    ("POST", "/sandboxes/{id}/files/mkdir?path=x"),
    ("POST", "/sandboxes/{id}/files/download-url"),
    ("POST", "/sandboxes/{id}/files/upload-url"),
]

# With a signature in the query instead of a credential.
SIGNED = [
    ("GET", "/sandboxes/{id}/files/download"),
    ("HEAD", "/sandboxes/{id}/files/download"),
    ("PUT", "/sandboxes/{id}/files/upload"),
]

SOCKETS = ["/sandboxes/{id}/exec/{sid}", "/sandboxes/{id}/agent/{sid}", "/sandboxes/{id}/pty/{sid}"]

# Below `/api`; a token of the sandbox opens these two as well.
OWN_SANDBOX = [("GET", "/sandboxes/{id}"), ("POST", "/sandboxes/{id}/token/refresh")]

# Below `/api`, for keys only.
CONTROL_OF_ONE = [
    ("DELETE", "/sandboxes/{id}"),
    ("POST", "/sandboxes/{id}/hibernate"),
    ("POST", "/sandboxes/{id}/wake"),
    ("POST", "/sandboxes/{id}/reboot"),
    ("POST", "/sandboxes/{id}/power-cycle"),
    ("POST", "/sandboxes/{id}/fork"),
    ("GET", "/sandboxes/{id}/diff"),
    ("GET", "/sandboxes/{id}/audit"),
    ("GET", "/sandboxes/{id}/logs?tail=false"),
    ("POST", "/sandboxes/{id}/files/revoke-urls"),
    ("POST", "/sandboxes/{id}/scale"),
    ("PUT", "/sandboxes/{id}/limits"),
    ("PUT", "/sandboxes/{id}/autoscale"),
    ("GET", "/sandboxes/{id}/autoscale"),
    ("PUT", "/sandboxes/{id}/scaling-lock"),
    ("GET", "/sandboxes/{id}/scaling-lock"),
    ("GET", "/sandboxes/{id}/allowed-hosts"),
    ("GET", "/sandboxes/{id}/tags"),
    ("GET", "/sandboxes/{id}/usage"),
    ("PUT", "/sandboxes/{id}/tags"),
    ("POST", "/sandboxes/{id}/checkpoints"),
    ("GET", "/sandboxes/{id}/checkpoints"),
    ("POST", "/sandboxes/{id}/checkpoints/{cid}/restore"),
    ("DELETE", "/sandboxes/{id}/checkpoints/{cid}"),
    ("POST", "/sandboxes/{id}/preview"),
    ("GET", "/sandboxes/{id}/preview"),
    ("POST", "/sandboxes/{id}/preview/rotate"),
    ("DELETE", "/sandboxes/{id}/preview/3000"),
    ("POST", "/sandboxes/{id}/preview/3000/grants"),
    ("GET", "/sandboxes/{id}/preview/3000/grants"),
    ("DELETE", "/sandboxes/{id}/preview/3000/grants/{cid}"),
]
OF_ONE_CHECKPOINT = [
    ("POST", "/sandboxes/from-checkpoint/{cid}"),
    ("POST", "/sandboxes/checkpoints/{cid}/publish"),
    ("POST", "/sandboxes/checkpoints/{cid}/unpublish"),
    ("POST", "/sandboxes/checkpoints/{cid}/patches"),
    ("GET", "/sandboxes/checkpoints/{cid}/patches"),
    ("DELETE", "/sandboxes/checkpoints/{cid}/patches/{pid}"),
]
OF_ONE_SECRET_STORE = [
    ("GET", "/secret-stores/{store}"),
    ("PUT", "/secret-stores/{store}"),
    ("DELETE", "/secret-stores/{store}"),
    ("GET", "/secret-stores/{store}/secrets"),
    ("PUT", "/secret-stores/{store}/secrets/base"),
    ("DELETE", "/secret-stores/{store}/secrets/base"),
]
CONTROL = [
    *OF_ONE_CHECKPOINT,
    *OF_ONE_SECRET_STORE,
    ("GET", "/secret-stores"),
    ("POST", "/secret-stores"),
    ("GET", "/tags"),
    ("GET", "/usage"),
    ("POST", "/sandboxes"),
    ("GET", "/sandboxes"),
    ("GET", "/snapshots"),
    ("POST", "/snapshots"),
    ("GET", "/snapshots/base"),
    ("DELETE", "/snapshots/base"),
    ("POST", "/snapshots/base/publish"),
    ("POST", "/snapshots/base/unpublish"),
    ("GET", "/images"),
    ("POST", "/images"),
    ("GET", "/whoami"),
    ("GET", "/api-keys"),
    ("POST", "/api-keys"),
    ("DELETE", "/api-keys/{kid}"),
    ("GET", "/templates"),
    ("POST", "/webhooks"),
    ("GET", "/webhooks"),
    ("GET", "/webhooks/{webhook_id}"),
    ("GET", "/webhooks/{webhook_id}/secret"),
    ("PATCH", "/webhooks/{webhook_id}"),
    ("DELETE", "/webhooks/{webhook_id}"),
    ("POST", "/webhooks/{webhook_id}/test"),
    ("GET", "/webhooks/{webhook_id}/deliveries"),
    ("GET", "/webhooks/{webhook_id}/deliveries/{message_id}"),
    ("POST", "/webhooks/{webhook_id}/deliveries/{message_id}/redeliver"),
    ("GET", "/templates/base"),
    ("POST", "/templates"),
    ("DELETE", "/templates/base"),
]

# Beside `/api`, for whoever has no key yet; the last two want one.
LOGINS = [
    ("POST", "/auth/cli/device"),
    ("POST", "/auth/cli/device/exchange"),
    ("POST", "/auth/cli/device/decide"),
    ("DELETE", "/auth/cli/credential"),
]

OF_ONE_SANDBOX = [*DATA_PLANE, *OWN_SANDBOX, *CONTROL_OF_ONE]
OFFERED = [*OF_ONE_SANDBOX, *CONTROL]

# Bodies that are valid, for routes that want one.
BODIES: dict[str, dict[str, Any]] = {
    "/sandboxes/{id}/preview": {"port": 3000},
    "/sandboxes/{id}/timeout": {"timeout": 5},
    "/sandboxes/{id}/exec/run": {"cmd": "true"},
    "/sandboxes/{id}/exec/run-async": {"cmd": "true"},
    "/sandboxes/{id}/commands": {"cmd": "true"},
    "/sandboxes/{id}/exec": {"cmd": "true"},
    "/sandboxes/{id}/pty/{sid}/resize": {"cols": 80, "rows": 24},
    "/sandboxes/{id}/agent/{sid}/prompt": {"text": "hello"},
    "/sandboxes/{id}/files/download-url": {"path": "x"},
    "/sandboxes/{id}/files/upload-url": {"path": "x"},
    "/sandboxes/{id}/scale": {"memoryMB": 8192},
    "/sandboxes/{id}/autoscale": {"enabled": False},
    "/sandboxes/{id}/scaling-lock": {"locked": True},
    "/sandboxes/{id}/checkpoints": {"name": "before"},
    "/sandboxes/checkpoints/{cid}/patches": {"script": "true"},
    "/api-keys": {"name": "another"},
    "/webhooks": {"url": "https://192.0.2.1/hook", "enabled": False},
    "/secret-stores": {"name": "some keys"},
    "/secret-stores/{store}/secrets/base": {"value": "x"},
}

# Everything else in sandbox-wire.md, sections 1.9 to 20.
NOT_OFFERED = [
    ("POST", "/sandboxes/{id}/migrate"),
    ("POST", "/sandboxes/{id}/mounts"),
    ("GET", "/sandboxes/{id}/mounts"),
    ("DELETE", "/sandboxes/{id}/mounts"),
    ("GET", "/capacity"),
    ("GET", "/capacity/calendar"),
    ("POST", "/capacity/reservations"),
    ("POST", "/auth/token"),
    ("GET", "/workers"),
    ("GET", "/sessions"),
]


NOTHING = "00000000-0000-0000-0000-000000000000"


def filled(path: str, sandbox: str, session: str = "00000000") -> str:
    return (
        path.replace("{id}", sandbox)
        .replace("{sid}", session)
        .replace("{kid}", NOTHING)
        .replace("{cid}", NOTHING)
        .replace("{pid}", NOTHING)
        .replace("{store}", NOTHING)
        .replace("{webhook_id}", "whk_none")
        .replace("{message_id}", "msg_none")
    )


def body_of(path: str) -> dict[str, Any]:
    """Keyword arguments for a request to this route."""
    if "files?path" in path:
        return {"content": b"x"} if path.startswith("/sandboxes") else {}
    return {"json": BODIES[path]} if path in BODIES else {}


async def known_routes(api: Api) -> set[tuple[str, str]]:
    """What the server itself says it has, with our names for the parameters, `/api` taken off."""
    schema = (await api.client.get("/api/openapi.json")).json()
    names = {
        "sandbox_id": "{id}",
        "session_id": "{sid}",
        "exec_id": "{sid}",
        "key_id": "{kid}",
        "checkpoint_id": "{cid}",
        "patch_id": "{pid}",
        "grant_id": "{cid}",
        "store_id": "{store}",
    }
    return {
        (
            method.upper(),
            re.sub(r"\{(\w+)\}", lambda found: names.get(found[1], found[0]), path.removeprefix("/api")),
        )
        for path, operations in schema["paths"].items()
        for method in operations
    }
