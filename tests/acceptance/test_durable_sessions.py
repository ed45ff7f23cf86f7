"""Durable sessions on a real node: brains and hands in machines, whatever of them is killed."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import closing, suppress
from typing import Any

import httpx
import pytest

from tests.support.host_state import processes_with
from tests.support.server import ServerProcess, running_server

pytestmark = [pytest.mark.machines, pytest.mark.timeout(400)]

PROMPT = "Do as the script says."
PATIENCE_SECONDS = 90.0


class Durable:
    """A client of /v3, for a server that may be killed meanwhile."""

    def __init__(self, server: ServerProcess) -> None:
        self.server = server

    def call(self, method: str, path: str, body: Mapping[str, Any] | None = None, **query: Any) -> Any:
        headers = {"Authorization": f"Bearer {self.server.api_key}"}
        with httpx.Client(base_url=f"{self.server.url}/v3", headers=headers, timeout=60) as client:
            answer = client.request(method, path, json=body, params=query)
        assert answer.is_success, answer.text
        return answer.json()

    def session(self, behaviour: str, text: str, **more: Any) -> Session:
        body = {"name": behaviour.replace(":", "-"), "runtime": "scripted", "prompt": PROMPT}
        agent = self.call("POST", "/agents", {**body, "model": f"scripted/{behaviour}"})
        made = self.call("POST", "/sessions", {"agent": agent["id"], "input": text, **more})
        return Session(self, made["session"]["id"])


class Session:
    def __init__(self, client: Durable, session_id: str) -> None:
        self.client = client
        self.id = session_id

    @property
    def now(self) -> dict[str, Any]:
        return self.client.call("GET", f"/sessions/{self.id}")

    @property
    def events(self) -> list[dict[str, Any]]:
        return self.client.call("GET", f"/sessions/{self.id}/events", limit=1000)["data"]

    @property
    def turns(self) -> list[dict[str, Any]]:
        """Oldest first."""
        return self.client.call("GET", f"/sessions/{self.id}/turns")["data"][::-1]

    @property
    def said(self) -> list[str]:
        return [
            event["body"]["text"]
            for event in self.events
            if event["type"] == "agent.message" and event["level"] == "user"
        ]

    def types(self) -> list[str]:
        return [event["type"] for event in self.events]

    def steer(self, text: str) -> None:
        self.client.call("POST", f"/sessions/{self.id}/messages", {"text": text})

    def until(self, holds: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not holds():
            assert time.monotonic() < deadline, f"not {what}: {self.now}\n{json.dumps(self.events, indent=1)}"
            time.sleep(0.1)

    def settled(self) -> str:
        self.until(lambda: self.now["status"] not in ("queued", "running"), "at its end")
        self.check()
        return self.now["status"]

    def until_event(self, type: str) -> None:
        self.until(lambda: type in self.types(), type)

    def check(self) -> None:
        """No gap, no duplicate, and one end for each turn."""
        events = self.events
        assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
        for turn in self.turns:
            own = [event["type"] for event in events if event["turn_id"] == turn["id"]]
            assert own.count("turn.completed") == own.count("turn.started") == 1, own

    def box(self, role: str) -> str:
        return self.now["sandboxes"][role]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Generator[ServerProcess]:
    with running_server(tmp_path_factory.mktemp("durable")) as running:
        yield running


@pytest.fixture
def durable(server: ServerProcess) -> Durable:
    return Durable(server)


def test_a_question_is_asked_and_answered(durable: Durable) -> None:
    session = durable.session("ask-then-echo", "hello")
    assert session.settled() == "awaiting_input"
    session.steer("forty-two")
    assert session.settled() == "idle"
    assert session.said == ["What should I say?", "forty-two"]
    assert [turn["yield_reason"] for turn in session.turns] == ["needs_input", "completed"]


def test_files_outlive_sleep(durable: Durable) -> None:
    """Both boxes are put to sleep between two turns; the next message wakes them."""
    session = durable.session("run", "cd /workspace && echo kept > file && cat file")
    assert session.settled() == "idle"
    with durable.server.client() as api:
        for role in ("brain", "hands"):
            assert api.post(f"/sandboxes/{session.box(role)}/hibernate").is_success
    session.steer("cat /workspace/file")
    assert session.settled() == "idle"
    assert [text.strip().splitlines()[-1] for text in session.said] == ["kept", "kept"]


SLOW = "touch /workspace/begun; sleep 20; echo step >> /workspace/steps; wc -l < /workspace/steps"


def program(*steps: Mapping[str, Any]) -> str:
    return json.dumps(steps)


def machine_processes(server: ServerProcess, sandbox_id: str) -> list[int]:
    """Processes on the host of the machine that this sandbox has now."""
    with closing(sqlite3.connect(f"file:{server.data}/opencomputer.db?mode=ro", uri=True)) as database:
        rows = database.execute("select id from machines where sandbox_id = ?", (sandbox_id,)).fetchall()
    return [pid for (machine_id,) in rows for pid in processes_with(machine_id)]


def kill_machine(server: ServerProcess, sandbox_id: str) -> None:
    found = machine_processes(server, sandbox_id)
    assert found, f"{sandbox_id} has no machine"
    for pid in found:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def kill_brain_process(server: ServerProcess, sandbox_id: str) -> None:
    command = {"cmd": "sh", "args": ["-c", "pkill -9 -f [r]un_module"]}
    with server.client() as api:
        api.post(f"/sandboxes/{sandbox_id}/exec/run", json=command)


def test_a_brain_that_is_killed_is_started_again(durable: Durable) -> None:
    session = durable.session("program", program({"say": "before"}, {"sleep": 8}, {"say": "after"}))
    session.until_event("agent.message")
    kill_brain_process(durable.server, session.box("brain"))
    assert session.settled() == "idle"
    [turn] = session.turns
    assert (turn["yield_reason"], turn["attempt"]) == ("completed", 2)
    assert session.said == ["before", "after"]
    assert session.types().count("runtime.restarted") == 1


def test_a_brain_whose_machine_is_killed_goes_on_in_another(durable: Durable) -> None:
    session = durable.session("program", program({"say": "one"}))
    session.settled()
    session.steer(program({"say": "before"}, {"sleep": 8}, {"say": "after"}))
    session.until(lambda: "before" in session.said, "at work")
    first = session.box("brain")
    kill_machine(durable.server, first)
    assert session.settled() == "idle"
    assert session.turns[-1]["attempt"] == 2
    assert session.said == ["one", "before", "after"]
    assert session.box("brain") != first


def test_hands_that_are_killed_are_lost_and_the_model_is_told(durable: Durable) -> None:
    steps = ({"bash": SLOW}, {"bash": "ls /workspace"}, {"say": "{{result}}"})
    session = durable.session("program", program(*steps))
    session.until_event("tool.call")
    session.until(lambda: bool(session.box("hands")), "in need of hands")
    with durable.server.client() as api:
        begun = {"cmd": "sh", "args": ["-c", "until test -e /workspace/begun; do sleep 0.1; done"]}
        assert api.post(f"/sandboxes/{session.box('hands')}/exec/run", json=begun).json()["exitCode"] == 0
    kill_machine(durable.server, session.box("hands"))
    assert session.settled() == "idle"
    assert session.types().count("tool.result") == 1, session.events
    [unknown] = [event for event in session.events if event["type"] == "tool.result"]
    assert unknown["body"]["unknown"] is True
    assert "lost" in session.said[-1]
    assert session.turns[-1]["attempt"] == 1


def test_a_node_that_is_killed_goes_on_when_it_is_back(durable: Durable) -> None:
    session = durable.session("program", program({"bash": SLOW}, {"say": "done: {{result}}"}))
    waiting = durable.session("echo", "I wait")
    session.until_event("tool.call")
    durable.server.kill()
    durable.server.start()
    assert session.settled() == "idle"
    assert waiting.settled() == "idle"
    [turn] = session.turns
    assert (turn["yield_reason"], turn["attempt"]) == ("completed", 2)
    results = [event["body"] for event in session.events if event["type"] == "tool.result"]
    assert [body["unknown"] for body in results] == [True]
    assert session.types().count("exec.completed") == 1


def test_a_turn_is_canceled_and_an_archived_session_loses_its_boxes(durable: Durable) -> None:
    session = durable.session("hang", "hello")
    session.until_event("agent.message")
    durable.call("POST", f"/sessions/{session.id}/cancel")
    assert session.settled() == "idle"
    assert session.turns[-1]["yield_reason"] == "canceled"
    session.steer("again")
    session.until(lambda: session.now["status"] == "running", "at work")
    durable.call("POST", f"/sessions/{session.id}/archive")
    assert session.now["status"] == "archived"
    session.check()


def test_boxes_sleep_when_there_has_been_nothing_to_do_for_a_minute(durable: Durable) -> None:
    """Of a session of the tests before this one, so that the minute is nearly over."""
    ended = durable.call("GET", "/sessions", limit=100)["data"][-1]
    brain = ended["sandboxes"]["brain"]
    with durable.server.client() as api:
        began = time.monotonic()
        while (status := api.get(f"/sandboxes/{brain}").json()["status"]) != "hibernated":
            assert time.monotonic() - began < PATIENCE_SECONDS, status
            time.sleep(0.5)
    session = Session(durable, ended["id"])
    assert "sandbox.hibernated" in session.types()
    session.steer("good morning")
    assert session.settled() in ("idle", "awaiting_input")
