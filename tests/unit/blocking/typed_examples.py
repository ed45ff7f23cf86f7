"""What type checkers know of the facade. Nothing here runs; `scripts/check.sh` has pyright read it."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any, assert_type

from opencomputer import AgentEvent, Image, ProcessResult
from opencomputer.blocking import (
    AgentSession,
    Checkpoint,
    ClientSession,
    Exec,
    ExecSession,
    OpenComputer,
    Page,
    Sandbox,
    SecretStore,
    Session,
    Shell,
    Snapshots,
    Stream,
    connect_session,
)
from opencomputer.durable import Deployment, DurableAgent, SessionData, SessionEvent, SessionResult, Turn


def sandboxes() -> None:
    with Sandbox.create(timeout=60, image=Image.base(), on_build_log=print) as sandbox:
        assert_type(sandbox, Sandbox)
        assert_type(sandbox.exec, Exec)
        assert_type(sandbox.exec.run("true"), ProcessResult)
        assert_type(sandbox.fork(2), list[Sandbox])
        assert_type(sandbox.create_checkpoint("a").wait_until_ready(), Checkpoint)
        assert_type(sandbox.list_checkpoints(), list[Checkpoint])
        assert_type(sandbox.files.read_stream("/a"), Stream[bytes])
        assert_type(next(sandbox.files.read_stream("/a")), bytes)
    assert_type(Sandbox.connect("sb-1"), Sandbox)
    assert_type(Sandbox.create_from_checkpoint("cp-1"), Sandbox)
    assert_type(SecretStore.list(), list[dict[str, Any]])
    assert_type(Snapshots().get("a"), dict[str, Any])


def processes(sandbox: Sandbox, pieces: Iterator[bytes]) -> None:
    sandbox.files.write("/a", pieces)
    with sandbox.exec.start("cat", on_stdout=lambda data: data.decode()) as session:
        assert_type(session, ExecSession)
        assert_type(session.done, Future[int])
    assert_type(sandbox.exec.shell(), Shell)
    agent = sandbox.agent.start("go", on_event=lambda event: event.type)
    assert_type(agent, AgentSession)
    assert_type(agent.wait("exit"), int)
    for event in agent:
        assert_type(event, AgentEvent)


def durable() -> None:
    with OpenComputer() as client:
        assert_type(client.agents.list(), Page[DurableAgent])
        for deployment in client.agents.deployments.list("agt_1"):
            assert_type(deployment, Deployment)
        session = client.sessions.create(agent="fixer", input="go")
        assert_type(session, Session)
        assert_type(session.refresh(), Session)
        assert_type(session.wait(timeout=60), SessionResult)
        assert_type(session.turns().data[0], Turn)
        assert_type(client.sessions.list(), Page[SessionData])
        for event in session.events(type="turn.*"):
            assert_type(event, SessionEvent)
    assert_type(connect_session("ses_1", "token"), ClientSession)
