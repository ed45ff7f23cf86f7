"""Routes of durable agents and sessions: what tests put there, told in the shapes of the contract."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from starlette.responses import JSONResponse, Response, StreamingResponse

if TYPE_CHECKING:
    from tests.support.fake_node.routes import Call

Object = dict[str, Any]


@dataclass
class Durable:
    """The state. Tests add to it and read from it."""

    agents: dict[str, Object] = field(default_factory=dict[str, Object])
    sessions: dict[str, Object] = field(default_factory=dict[str, Object])
    events: dict[str, list[Object]] = field(default_factory=dict[str, list[Object]])
    turns: list[Object] = field(default_factory=list[Object])
    revisions: list[Object] = field(default_factory=list[Object])
    deployments: list[Object] = field(default_factory=list[Object])
    credentials: dict[str, Object] = field(default_factory=dict[str, Object])
    destinations: list[Object] = field(default_factory=list[Object])
    deliveries: list[Object] = field(default_factory=list[Object])
    first_turn: list[Object] = field(default_factory=list[Object])
    """What a session's first turn has in its log after the input."""

    def add_agent(self, number: int, now: str, **fields: object) -> Object:
        """An agent, `agt_` and the number."""
        agent = {
            "id": f"agt_{number:024x}",
            "name": f"agent-{number}",
            "model": "anthropic/claude-sonnet-5",
            "runtime": "claude",
            "prompt": "Help.",
            "revision": 1,
            "active_revision_id": "rev_1",
            "active_revision": {"id": "rev_1", "number": 1, "digest": "sha256:" + "ab" * 32},
            "credential_id": None,
            "limits": None,
            "checkpoints": {"keep": 0},
            "invoke_url": "http://agents.test/a",
            "deployment_status": {"deployment_id": "dep_1", "state": "ready"},
            "created_at": now,
            "updated_at": now,
            **fields,
        }
        self.agents[str(agent["id"])] = agent
        return agent

    def add_session(self, number: int, agent_id: str, now: str, **fields: object) -> Object:
        """A session, `ses_` and the number, with an empty log."""
        session = {
            "id": f"ses_{number:024x}",
            "status": "queued",
            "head": 0,
            "input_cursor": 0,
            "agent_id": agent_id,
            "credential_id": "managed",
            "agent_snapshot": {"model": "anthropic/claude-sonnet-5", "revision": 1},
            "last_turn": None,
            "usage": {},
            "limits": None,
            "metadata": None,
            "created_at": now,
            "updated_at": now,
            **fields,
        }
        self.sessions[str(session["id"])] = session
        self.events[str(session["id"])] = []
        return session

    def append(self, session_id: str, *events: Object) -> None:
        """Events, whose `seq` and `id` are given here."""
        log = self.events[session_id]
        for event in events:
            seq = len(log) + 1
            known: Object = {"id": f"evt_{seq}", "seq": seq, "session": session_id, "turn_id": None}
            usual: Object = {"ts": "2026-01-02T03:04:05.000Z", "level": "user", "body": {}, "refs": {}}
            log.append({**known, **usual, **event})
        self.sessions[session_id]["head"] = len(log)


def page(objects: list[Object]) -> Response:
    return JSONResponse({"data": objects, "next_cursor": None})


def _refused(status: int, code: str, message: str) -> Response:
    return JSONResponse(
        {"error": {"type": code, "code": code, "message": message, "request_id": "r"}}, status
    )


def _missing() -> Response:
    return _refused(404, "not_found", "There is no such thing.")


async def _create_agent(call: Call) -> Response:
    durable = call.node.durable
    if any(each["name"] == call.json["name"] for each in durable.agents.values()):
        return _refused(409, "name_conflict", "Another agent has this name.")
    return JSONResponse(durable.add_agent(len(durable.agents) + 1, call.node.now(), **call.json), 201)


async def _list_agents(call: Call) -> Response:
    return page(list(call.node.durable.agents.values()))


async def _agent(call: Call) -> Response:
    agents = call.node.durable.agents
    found = agents.get(call.params["id"])
    if found is None:
        return _missing()
    if call.method == "DELETE":
        del agents[call.params["id"]]
        return Response(status_code=204)
    if call.method == "PATCH":
        found.update({**call.json, "revision": 2})
    return JSONResponse(found)


async def _deploy(call: Call) -> Response:
    durable = call.node.durable
    active = call.json.get("activate", True)
    revision = {"id": "rev_2", "number": 2, "digest": "sha256:" + "cd" * 32}
    deployment: Object = {
        "id": "dep_2",
        "state": "ready",
        "terminal": True,
        "result": "created",
        "input_type": "inline",
        "active": active,
        "revision_id": "rev_2",
        "revision": revision,
        "created_at": call.node.now(),
    }
    if active:
        durable.agents[call.params["id"]].update(revision=2, active_revision_id="rev_2")
    durable.deployments.insert(0, deployment)
    return JSONResponse({"deployment": deployment}, 201)


async def _deployments(call: Call) -> Response:
    return page(call.node.durable.deployments)


async def _deployment(call: Call) -> Response:
    found = [each for each in call.node.durable.deployments if each["id"] == call.params["did"]]
    return JSONResponse(found[0]) if found else _missing()


async def _revisions(call: Call) -> Response:
    return page(call.node.durable.revisions)


async def _activate(call: Call) -> Response:
    return JSONResponse({"active_revision_id": f"rev_{call.params['rev']}"})


async def _activations(call: Call) -> Response:
    moved: Object = {"id": "act_1", "from": None, "to": {"id": "rev_1", "number": 1}, "reason": "create"}
    return page([moved | {"created_at": call.node.now()}])


async def _create_session(call: Call) -> Response:
    durable = call.node.durable
    fields = {name: call.json[name] for name in ("metadata", "key") if name in call.json}
    session = durable.add_session(len(durable.sessions) + 1, call.json["agent"], call.node.now(), **fields)
    said: Object = {"type": "user.message", "body": {"text": call.json["input"]}}
    durable.append(session["id"], said, *durable.first_turn)
    return JSONResponse({"session": session, "client_token": "eyJ.a.token", "sources": []}, 201)


async def _list_sessions(call: Call) -> Response:
    wanted = {"agent": "agent_id", "status": "status", "key": "key"}
    found = [
        each
        for each in reversed(call.node.durable.sessions.values())
        if all(each.get(wanted[name]) == value for name, value in call.query.items() if name in wanted)
    ]
    return page(found)


async def _session(call: Call) -> Response:
    found = call.node.durable.sessions.get(call.params["id"])
    return JSONResponse(found) if found else _missing()


async def _verb(call: Call) -> Response:
    durable, session_id = call.node.durable, call.params["id"]
    session = durable.sessions.get(session_id)
    if session is None:
        return _missing()
    match call.params["verb"]:
        case "archive":
            session["status"] = "archived"
        case "client-tokens":
            return JSONResponse({"token": "eyJ.b.token", "client_token": "eyJ.b.token"}, 201)
        case "fork":
            number = len(durable.sessions) + 1
            origin = {"session": session_id, "turn": call.json.get("turn")}
            fork = durable.add_session(number, session["agent_id"], call.node.now(), origin=origin)
            return JSONResponse({"session": fork, "client_token": "eyJ.c.token"}, 201)
        case "messages" if session["status"] == "archived":
            return _refused(409, "session_archived", "The session is archived.")
        case "messages":
            durable.append(session_id, {"type": "user.message", "body": {"text": call.json["text"]}})
            event = durable.events[session_id][-1]
            accepted = {"event": {"id": event["id"], "seq": event["seq"]}, "session": session}
            return JSONResponse(accepted, 202)
        case _:
            pass
    return JSONResponse({"ok": True, "session": session})


async def _part(call: Call) -> Response:
    durable, session_id = call.node.durable, call.params["id"]
    match call.params["part"]:
        case "turns":
            return page(durable.turns)
        case "destinations":
            return page(durable.destinations)
        case "deliveries":
            return page(durable.deliveries)
        case "result":
            said = [each for each in durable.events[session_id] if each["type"] == "agent.message"]
            turn = durable.turns[0] if durable.turns else None
            return JSONResponse({"last_turn": turn, "result": said[-1] if said else None})
        case "events" if session_id in durable.events:
            return _events(call, durable.events[session_id])
        case _:
            return _missing()


def _events(call: Call, log: list[Object]) -> Response:
    after = int(call.query.get("after", "0"))
    found = [each for each in log if each["seq"] > after]
    if call.query.get("stream") == "sse":
        return StreamingResponse(_frames(log, after), media_type="text/event-stream")
    turn = call.query.get("turn_id")
    return page([each for each in found if turn is None or each["turn_id"] == turn])


async def _frames(log: list[Object], after: int) -> AsyncIterator[bytes]:
    yield b": hb\n\n"
    while True:
        for event in log[after:]:
            yield f"id: {event['seq']}\ndata: {json.dumps(event)}\n\n".encode()
        after = max(after, len(log))
        await asyncio.sleep(0.02)


async def _add_destination(call: Call) -> Response:
    made: Object = {
        "id": "dst_1",
        "kind": "webhook",
        "enabled": True,
        "has_secret": "secret" in call.json,
        **{name: value for name, value in call.json.items() if name != "secret"},
    }
    call.node.durable.destinations.append(made)
    return JSONResponse(made, 201)


async def _remove_destination(call: Call) -> Response:
    call.node.durable.destinations.clear()
    return Response(status_code=204)


async def _redeliver(call: Call) -> Response:
    return JSONResponse(call.node.durable.deliveries[0] | {"status": "pending"}, 202)


async def _credentials(call: Call) -> Response:
    credentials = call.node.durable.credentials
    if call.method == "GET":
        return page(list(credentials.values()))
    made: Object = {
        "id": f"cred_{len(credentials) + 1}",
        "provider": call.json.get("provider", "anthropic"),
        "name": call.json.get("name"),
        "last4": call.json["key"][-4:],
        "is_default": call.json.get("is_default", False),
        "created_at": call.node.now(),
    }
    credentials[made["id"]] = made
    return JSONResponse(made, 201)


async def _credential(call: Call) -> Response:
    credentials = call.node.durable.credentials
    name = call.json["credential"] if call.method == "PUT" else call.params["id"]
    found = credentials.get(name)
    if found is None:
        return _missing()
    if call.method == "DELETE":
        del credentials[name]
        return Response(status_code=204)
    if call.method == "PUT":
        found["is_default"] = True
    else:
        found["last4"] = call.json["key"][-4:]
    return JSONResponse(found)


ROUTES = [
    ("POST", "/agents", _create_agent),
    ("GET", "/agents", _list_agents),
    *((method, "/agents/{id}", _agent) for method in ("GET", "PATCH", "DELETE")),
    ("POST", "/agents/{id}/deployments", _deploy),
    ("GET", "/agents/{id}/deployments", _deployments),
    ("GET", "/agents/{id}/deployments/{did}", _deployment),
    ("GET", "/agents/{id}/revisions", _revisions),
    ("POST", "/agents/{id}/revisions/{rev}/activate", _activate),
    ("GET", "/agents/{id}/activations", _activations),
    ("POST", "/credentials", _credentials),
    ("GET", "/credentials", _credentials),
    ("PUT", "/credentials/default", _credential),
    ("PATCH", "/credentials/{id}", _credential),
    ("DELETE", "/credentials/{id}", _credential),
    ("POST", "/sessions", _create_session),
    ("GET", "/sessions", _list_sessions),
    ("GET", "/sessions/{id}", _session),
    ("POST", "/sessions/{id}/destinations", _add_destination),
    ("DELETE", "/sessions/{id}/destinations/{did}", _remove_destination),
    ("POST", "/sessions/{id}/deliveries/{did}/redeliver", _redeliver),
    ("POST", "/sessions/{id}/{verb}", _verb),
    ("GET", "/sessions/{id}/{part}", _part),
]
