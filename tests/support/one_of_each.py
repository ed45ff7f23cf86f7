"""One of each kind that a node has, for made-up requests to be about.

The ids are by the end of the path that their parameter has: `/{sandbox_id}`, `/pty/{session_id}`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.support.node import Api
from tests.support.waiting import eventually

_NOWHERE = "https://127.0.0.1:9/"
"""Nothing listens there. The node has to permit it: `ALLOW_PRIVATE_WEBHOOKS`."""
_AGENT = {"name": "fuzzed", "runtime": "scripted", "prompt": "Write.", "model": "scripted/echo"}


async def ids_of_sandboxes(api: Api) -> dict[str, str]:
    """What `/api` has: a sandbox with a saved state and things that run, a webhook and a store."""
    sandbox = (await api.create())["sandboxID"]
    path = f"/api/sandboxes/{sandbox}"
    endless = {"cmd": "sleep", "args": ["infinity"]}
    webhook = await _made(api, "/api/webhooks", {"url": _NOWHERE})
    message = await _made(api, f"/api/webhooks/{webhook['id']}/test", {})
    store = await _made(api, "/api/secret-stores", {"name": "fuzzed"})
    return {
        "/{sandbox_id}": sandbox,
        "/{checkpoint_id}": (await _made(api, f"{path}/checkpoints", {"name": "a"}))["id"],
        "/exec/{session_id}": (await _made(api, f"{path}/exec", endless))["sessionID"],
        "/pty/{session_id}": (await _made(api, f"{path}/pty", {}))["sessionID"],
        "/{webhook_id}": webhook["id"],
        "/{message_id}": message["messageId"],
        "/{store_id}": store["id"],
    }


async def ids_of_sessions(api: Api) -> dict[str, str]:
    """What `/v3` has: an agent with what starts its sessions, and a session that has told somebody."""
    agent = await _made(api, "/v3/agents", _AGENT)
    path = f"/v3/agents/{agent['id']}"
    schedule = await _made(api, f"{path}/schedules", {"name": "a", "cron": "0 0 1 1 *", "input": "Go."})
    hook = await _made(api, f"{path}/hooks", {"name": "a"})
    return {
        "/{agent}": agent["id"],
        "/a/agt-{agent}": agent["invoke_url"].rpartition("/agt-")[2],
        "/{revision}": agent["active_revision_id"],
        "/{deployment}": agent["deployment_status"]["deployment_id"],
        "/{schedule}": schedule["schedule"]["id"],
        "/{hook}": hook["hook"]["id"],
        "/{token}": hook["hook_url"].rpartition("/")[2],
        **await _ids_of_session(api, agent["id"]),
    }


async def _ids_of_session(api: Api, agent: str) -> dict[str, str]:
    session = (await _made(api, "/v3/sessions", {"agent": agent, "input": "hello"}))["session"]
    path = f"/v3/sessions/{session['id']}"
    destination = await _made(api, f"{path}/destinations", {"url": _NOWHERE})

    async def delivery() -> str:
        listed = (await api.client.get(f"{path}/deliveries")).json()["data"]
        return listed[0]["id"] if listed else ""

    return {
        "/{session_id}": session["id"],
        "/{turn_id}": session["last_turn"]["id"],
        "/{event_id}": (await api.client.get(f"{path}/events")).json()["data"][0]["id"],
        "/{destination_id}": destination["id"],
        "/{delivery_id}": await eventually(delivery, "a delivery"),
    }


async def _made(api: Api, path: str, body: Mapping[str, object]) -> Mapping[str, Any]:
    answer = await api.client.post(path, json=body)
    assert answer.is_success, answer.text
    return answer.json()
