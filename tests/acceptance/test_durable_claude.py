"""A whole session with the real Claude engine; and turns whose provider does not play along."""

from __future__ import annotations

import json
import threading
from collections.abc import Generator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from standardwebhooks import Webhook

from opencomputer import verify_webhook
from tests.acceptance.test_durable_sessions import Durable, Session
from tests.support.server import ServerProcess, running_server
from tests.support.waiting import until

pytestmark = [pytest.mark.machines, pytest.mark.timeout(300)]

SECRET = "whsec_c2VjcmV0IGtleSBvZiBvdXJz"
ADD = "def add(a, b):\n    return a + b\n"
CHECK = "cd /workspace && python3 -c 'import sums; assert sums.add(2, 3) == 5; print(\"tests pass\")'"
SCRIPT = {
    "rules": [
        {
            "when": {"contains": "build it"},
            "replies": [
                [
                    {"text": "First the program."},
                    {"tool": "mcp__oc__write", "input": {"path": "/workspace/sums.py", "content": ADD}},
                ],
                [{"text": "Now its tests."}, {"tool": "mcp__oc__bash", "input": {"command": CHECK}}],
                [{"tool": "mcp__oc__ask", "input": {"text": "Shall I count the lines?"}}],
            ],
        },
        {
            "when": {"contains": "yes, count"},
            "replies": [
                [{"tool": "mcp__oc__bash", "input": {"command": "wc -l < /workspace/sums.py"}}],
                [{"tool": "mcp__oc__say", "input": {"text": "counted: {{result}}"}}],
            ],
        },
        {"when": {"contains": "what did i say"}, "replies": [[{"text": "{{prompts}}"}]]},
    ]
}


class Receiver:
    """Takes webhooks on the loopback interface, and keeps them."""

    def __init__(self) -> None:
        self.got: list[tuple[bytes, dict[str, str]]] = []
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.got.append((body, dict(self.headers.items())))
                self.send_response(204)
                self.end_headers()

            def log_message(self, format: str, *_: object) -> None:
                pass

        self._server = _LocalServer(Handler)
        self.url = self._server.url

    def close(self) -> None:
        self._server.close()


class Provider:
    """A provider of models that rejects every key, or never answers; it keeps what it was sent."""

    def __init__(self) -> None:
        self.keys: list[str] = []
        self.closing = threading.Event()
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                key = self.headers.get("x-api-key", "")
                provider.keys.append(key)
                if "hang" in key:
                    provider.closing.wait(60)
                error = {"type": "authentication_error", "message": "invalid x-api-key"}
                body = json.dumps({"type": "error", "error": error}).encode()
                self.send_response(401)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *_: object) -> None:
                pass

        self._server = _LocalServer(Handler)
        self.url = self._server.url

    def close(self) -> None:
        self.closing.set()
        self._server.close()


class _LocalServer:
    def __init__(self, handler: type[BaseHTTPRequestHandler]) -> None:
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), handler, bind_and_activate=False)
        self._http.daemon_threads = True
        self._http.allow_reuse_address = True
        # Not server_bind: it would look up the name of this host.
        self._http.socket.bind(("127.0.0.1", 0))
        self._http.server_address = self._http.socket.getsockname()
        self._http.server_activate()
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}"
        self._thread = threading.Thread(target=self._http.serve_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()


@pytest.fixture(scope="module")
def provider() -> Generator[Provider]:
    provider = Provider()
    yield provider
    provider.close()


@pytest.fixture
def receiver() -> Generator[Receiver]:
    receiver = Receiver()
    yield receiver
    receiver.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, provider: Provider) -> Generator[ServerProcess]:
    folder: Path = tmp_path_factory.mktemp("claude")
    script = folder / "script.json"
    script.write_text(json.dumps(SCRIPT))
    with running_server(
        folder,
        OPENCOMPUTER_MODEL_SCRIPT=str(script),
        OPENCOMPUTER_ALLOW_PRIVATE_WEBHOOKS="1",
        OPENCOMPUTER_ANTHROPIC_BASE_URL=provider.url,
    ) as running:
        yield running


@pytest.fixture
def durable(server: ServerProcess) -> Durable:
    return Durable(server)


def claude(durable: Durable, name: str, text: str, **more: Any) -> Session:
    body = {"name": name, "prompt": "You write programs.", "model": "anthropic/claude-sonnet-5"}
    agent = durable.call("POST", "/agents", body | {k: more.pop(k) for k in ("credential",) if k in more})
    made = durable.call("POST", "/sessions", {"agent": agent["id"], "input": text, **more})
    return Session(durable, made["session"]["id"])


def test_code_is_written_tested_asked_about_steered_and_delivered(
    durable: Durable, receiver: Receiver
) -> None:
    session = claude(durable, "programmer", "Build it, please.", metadata={"ticket": 4711})
    body = {"url": receiver.url, "secret": SECRET, "types": ["turn.completed"]}
    durable.call("POST", f"/sessions/{session.id}/destinations", body)
    assert session.settled() == "awaiting_input"
    assert session.said == ["Shall I count the lines?"]
    (executed,) = [event["body"] for event in session.events if event["type"] == "exec.completed"]
    assert (executed["exit_code"], executed["command"]) == (0, CHECK)
    assert "tests pass" in executed["output"]
    narrated = [event["body"]["text"] for event in session.events if event["type"] == "agent.message"]
    assert narrated[:2] == ["First the program.", "Now its tests."]

    session.steer("Yes, count them.")
    assert session.settled() == "idle"
    assert "counted: " in session.said[-1]
    assert "2" in session.said[-1]
    result = durable.call("GET", f"/sessions/{session.id}/result")
    assert result["result"]["body"]["text"] == session.said[-1]

    session.steer("What did I say?")
    assert session.settled() == "idle"
    assert "Build it, please." in session.said[-1]
    assert "Yes, count them." in session.said[-1]

    until(lambda: len(receiver.got) == 3, "three turns told of")
    for sent, headers in receiver.got:
        Webhook(SECRET).verify(sent, {name.lower(): value for name, value in headers.items()})
        assert verify_webhook(sent, headers, SECRET).metadata == {"ticket": 4711}
    outcomes = [json.loads(sent)["event"]["body"]["outcome"] for sent, _ in receiver.got]
    assert outcomes == ["needs_input", "completed", "completed"]


def test_a_key_is_the_providers_alone_and_a_new_one_is_used_at_once(
    durable: Durable, provider: Provider
) -> None:
    key = durable.call("POST", "/credentials", {"provider": "anthropic", "key": "sk-ant-first-key-1"})
    session = claude(durable, "own key", "hello", credential=key["id"])
    assert session.settled() == "idle"
    assert provider.keys[-1] == "sk-ant-first-key-1"
    (failed,) = [event for event in session.events if event["type"] == "error.model"]
    assert failed["body"]["code"] == "model_key_rejected"
    assert session.turns[-1]["yield_reason"] == "error"
    durable.call("PATCH", f"/credentials/{key['id']}", {"key": "sk-ant-second-key-2"})
    session.steer("hello again")
    assert session.settled() == "idle"
    assert provider.keys[-1] == "sk-ant-second-key-2"
    assert "sk-ant" not in json.dumps(session.events)


def test_a_model_that_hangs_is_ended_by_the_clock_of_the_turn(durable: Durable, provider: Provider) -> None:
    key = durable.call("POST", "/credentials", {"provider": "anthropic", "key": "sk-ant-hang-key-3"})
    session = claude(durable, "hung", "hello", credential=key["id"], limits={"turn_seconds": 4})
    assert session.settled() == "idle"
    assert session.turns[-1]["yield_reason"] == "deadline_exceeded"
    assert "sk-ant-hang-key-3" in provider.keys
