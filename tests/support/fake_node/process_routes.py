"""Exec, agent and terminal routes of the fake."""

from __future__ import annotations

import asyncio
import os
import re
from typing import TYPE_CHECKING

from starlette.responses import JSONResponse, Response

from opencomputer.wire import frames
from tests.support.fake_node.sessions import AgentScript, FakeSession, ProcessSession
from tests.support.fake_node.terminal import FakeTerminal

if TYPE_CHECKING:
    from tests.support.fake_node.routes import Call

_INLINE_SECONDS = 0.4
_HOLD_SECONDS = 0.1


async def _run_async(call: Call) -> Response:
    if not call.node.run_async_supported:
        return JSONResponse({"error": "no such route"}, 404)
    session = await _started(call)
    if await _ended_within(session, _INLINE_SECONDS):
        return JSONResponse(_result(session))
    exec_id = session.session_id
    call.node.results[exec_id] = (session, [])
    return JSONResponse({"execId": exec_id, "running": True, "startedAt": call.node.now()}, 202)


async def _run(call: Call) -> Response:
    session = await _started(call)
    await _ended_within(session, float(call.json.get("timeout") or 60))
    return JSONResponse(_result(session))


async def _poll(call: Call) -> Response:
    known = call.node.results.get(call.params["sid"])
    if known is None:
        return JSONResponse({"error": "There is no such command.", "code": "not_found"}, 404)
    if await _ended_within(known[0], _HOLD_SECONDS):
        return JSONResponse({"running": False} | _result(known[0]))
    return JSONResponse({"running": True, "stdout": "", "stderr": ""})


async def _start(call: Call) -> Response:
    session = await _started(call)
    call.sandbox.sessions[session.session_id] = session
    return JSONResponse(_session_view(call, session), 201)


async def _list(call: Call) -> Response:
    return JSONResponse([_session_view(call, session) for session in call.sandbox.sessions.values()])


async def _kill(call: Call) -> Response:
    session = call.sandbox.sessions.get(call.params["sid"])
    if session is None:
        return JSONResponse({"error": "There is no such session.", "code": "not_found"}, 404)
    await session.kill(call.json.get("signal") or 9)
    return Response(status_code=204)


async def _start_agent(call: Call) -> Response:
    session = AgentScript(call.node.next_id(), call.node.agent_answer)
    call.sandbox.sessions[session.session_id] = session
    session.event(type="ready")
    settings = {name: value for name, value in call.json.items() if name != "prompt"}
    if settings:
        session.command({"type": "configure"} | settings)
    if "prompt" in call.json:
        session.command({"type": "prompt", "text": call.json["prompt"]})
    return JSONResponse(_agent_view(call, session), 201)


async def _list_agents(call: Call) -> Response:
    agents = [one for one in call.sandbox.sessions.values() if isinstance(one, AgentScript)]
    return JSONResponse([_agent_view(call, session) for session in agents])


async def _create_terminal(call: Call) -> Response:
    terminal = FakeTerminal(call.node.next_id())
    await terminal.start([call.json.get("shell") or "/bin/sh"], (call.json["cols"], call.json["rows"]))
    call.sandbox.terminals[terminal.session_id] = terminal
    view = {"sessionID": terminal.session_id, "sandboxID": call.params["id"]}
    return JSONResponse(view, 201)


async def _list_terminals(call: Call) -> Response:
    return JSONResponse(
        [
            {
                "sessionID": each.session_id,
                "sandboxID": call.params["id"],
                "command": "/bin/bash",
                "running": not each.deleted,
                "startedAt": call.node.now(),
                "attachedClients": 0,
            }
            for each in call.sandbox.terminals.values()
        ]
    )


async def _resize_terminal(call: Call) -> Response:
    call.sandbox.terminals[call.params["sid"]].resize((call.json["cols"], call.json["rows"]))
    return Response(status_code=200)


async def _delete_terminal(call: Call) -> Response:
    terminal = call.sandbox.terminals[call.params["sid"]]
    terminal.deleted = True
    await terminal.stop()
    return Response(status_code=204)


async def _started(call: Call) -> ProcessSession:
    body = call.json
    argv = [body["cmd"], *body.get("args", [])]
    if len(argv) == 1 and re.search(r"[^\w./-]", argv[0]):
        argv = ["sh", "-c", argv[0]]
    session = ProcessSession(call.node.next_id(), argv)
    environment = {"PATH": os.environ["PATH"]} | call.sandbox.env | body.get("envs", {})
    await session.start(environment, body.get("cwd"))
    return session


async def _ended_within(session: FakeSession, seconds: float) -> bool:
    try:
        async with asyncio.timeout(seconds):
            async for _ in session.follow():
                pass
    except TimeoutError:
        return False
    return True


def _result(session: FakeSession) -> dict[str, object]:
    return {
        "exitCode": session.exit_code,
        "stdout": _text(session, frames.STDOUT),
        "stderr": _text(session, frames.STDERR),
    }


def _text(session: FakeSession, channel: int) -> str:
    return b"".join(frame.payload for frame in session.ring if frame.channel == channel).decode()


def _session_view(call: Call, session: FakeSession) -> dict[str, object]:
    view: dict[str, object] = {
        "sessionID": session.session_id,
        "sandboxID": call.params["id"],
        "command": session.argv[0],
        "args": session.argv[1:],
        "running": session.exit_code is None,
        "startedAt": call.node.now(),
        "attachedClients": len(session.followers),
    }
    return view if session.exit_code is None else view | {"exitCode": session.exit_code}


def _agent_view(call: Call, session: FakeSession) -> dict[str, object]:
    return {
        "sessionID": session.session_id,
        "sandboxID": call.params["id"],
        "running": session.exit_code is None,
        "startedAt": call.node.now(),
    }


ROUTES = [
    ("POST", "/exec/run-async", _run_async),
    ("POST", "/exec/run", _run),
    ("GET", "/exec/{sid}/result", _poll),
    ("POST", "/exec", _start),
    ("GET", "/exec", _list),
    ("POST", "/exec/{sid}/kill", _kill),
    ("POST", "/agent", _start_agent),
    ("GET", "/agent", _list_agents),
    ("POST", "/agent/{sid}/kill", _kill),
    ("POST", "/pty", _create_terminal),
    ("GET", "/pty", _list_terminals),
    ("POST", "/pty/{sid}/resize", _resize_terminal),
    ("DELETE", "/pty/{sid}", _delete_terminal),
]
