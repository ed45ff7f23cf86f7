"""`HostedAgents`: what is asked, and what becomes of the answers."""

from __future__ import annotations

import json

import httpx
import pytest

from opencomputer import ConflictError, HostedAgents, OperationFailedError
from opencomputer.hosted import (
    ChannelChange,
    Entitlement,
    HostedAgent,
    HostedChannel,
    HostedInstance,
    HostedLogs,
    HostedPackage,
    HostedResult,
    HostedSecret,
    HostedSession,
    Operation,
    PackageChange,
    ReplyPart,
)
from tests.support.fake_node import FakeNode, Rule
from tests.unit.sdk.exchanges import Asked, Exchange, check, check_unsupported

pytestmark = pytest.mark.anyio

_AGENT = "/v1/agents/mine"
_OPERATION: dict[str, object] = {"id": "op_1", "agent_id": "mine", "kind": "create", "state": "running"}
_DETAIL: dict[str, object] = {
    "id": "mine",
    "display_name": "Mine",
    "core": "hermes",
    "model": None,
    "channels": [{"name": "telegram", "bot_username": "my_bot"}],
    "packages": [{"name": "gbrain", "variant": "builtin"}],
    "status": "starting",
    "current_operation": _OPERATION,
}
_READ = HostedAgent(
    id="mine",
    display_name="Mine",
    core="hermes",
    channels=[HostedChannel(name="telegram", bot_username="my_bot")],
    packages=[HostedPackage(name="gbrain", variant="builtin")],
    status="starting",
    current_operation=Operation(id="op_1", agent_id="mine", kind="create", state="running"),
)
_INSTANCE = HostedInstance(id="inst_1", agent_id="mine", status="creating", metadata={"user": "7"})
_INSTANCE_ANSWER = {"id": "inst_1", "agent_id": "mine", "status": "creating", "metadata": {"user": "7"}}
_SESSION = HostedSession(id="sess_1", agent_id="mine", status="running", input={"prompt": "hi"})
_SESSION_ANSWER = {"id": "sess_1", "agent_id": "mine", "status": "running", "input": {"prompt": "hi"}}

Hosted = Exchange[HostedAgents]
EXCHANGES = (
    Hosted(
        "create a raw one",
        lambda hosted: hosted.create(
            "mine", config={"snapshot": "s", "entrypoint": "run"}, secrets={"A": "b"}
        ),
        Asked(
            "POST",
            "/v1/agents",
            {"id": "mine", "config": {"snapshot": "s", "entrypoint": "run"}, "secrets": {"A": "b"}},
        ),
        {"id": "mine", "config": {"snapshot": "s"}},
        HostedAgent(id="mine", config={"snapshot": "s"}),
        201,
    ),
    Hosted(
        "create without waiting",
        lambda hosted: hosted.create("mine", "hermes", model="p/m", display_name="Mine", wait=False),
        Asked("POST", "/v1/agents", {"id": "mine", "core": "hermes", "model": "p/m", "display_name": "Mine"}),
        {**_DETAIL, "operation": _OPERATION},
        _READ,
        201,
    ),
    Hosted("list", lambda hosted: hosted.list(), Asked("GET", "/v1/agents"), {"agents": [_DETAIL]}, [_READ]),
    Hosted("get", lambda hosted: hosted.get("mine"), Asked("GET", _AGENT), {"agent": _DETAIL}, _READ),
    Hosted(
        "update",
        lambda hosted: hosted.update("mine", display_name="New", config={"env": {}}, model="p/m"),
        Asked("PATCH", _AGENT, {"display_name": "New", "config": {"env": {}}, "model": "p/m"}),
        _DETAIL,
        _READ,
    ),
    Hosted("delete", lambda hosted: hosted.delete("mine"), Asked("DELETE", _AGENT), {"deleted": True}, None),
    Hosted(
        "delete without a body",
        lambda hosted: hosted.delete("mine"),
        Asked("DELETE", _AGENT),
        None,
        None,
        204,
    ),
    Hosted(
        "set a secret",
        lambda hosted: hosted.set_secret("mine", "TOKEN", "v", allowed_hosts=("a.example",)),
        Asked("PUT", f"{_AGENT}/secrets/TOKEN", {"value": "v", "allowed_hosts": ["a.example"]}),
        {"key": "TOKEN", "allowed_hosts": ["a.example"], "set_at": "2026-01-02T03:04:05Z"},
        HostedSecret(key="TOKEN", allowed_hosts=["a.example"], set_at="2026-01-02T03:04:05Z"),
    ),
    Hosted(
        "list secrets",
        lambda hosted: hosted.list_secrets("mine"),
        Asked("GET", f"{_AGENT}/secrets"),
        {"secrets": [{"key": "TOKEN"}]},
        [HostedSecret(key="TOKEN")],
    ),
    Hosted(
        "delete a secret",
        lambda hosted: hosted.delete_secret("mine", "TOKEN"),
        Asked("DELETE", f"{_AGENT}/secrets/TOKEN"),
        {},
        None,
    ),
    Hosted(
        "connect a channel",
        lambda hosted: hosted.connect_channel("mine", "telegram", bot_token="1:x"),
        Asked("POST", f"{_AGENT}/channels/telegram", {"bot_token": "1:x"}),
        {"agent_id": "mine", "channel": "telegram", "status": "connecting", "operation": _OPERATION},
        ChannelChange(
            agent_id="mine",
            channel="telegram",
            status="connecting",
            operation=Operation(id="op_1", agent_id="mine", kind="create", state="running"),
        ),
    ),
    Hosted(
        "may a channel be connected",
        lambda hosted: hosted.entitlement("mine", "telegram"),
        Asked("GET", f"{_AGENT}/channels/telegram/entitlement"),
        {"feature": "telegram", "entitled": True, "reason": "ungated"},
        Entitlement(feature="telegram", entitled=True, reason="ungated"),
    ),
    Hosted(
        "disconnect a channel",
        lambda hosted: hosted.disconnect_channel("mine", "telegram"),
        Asked("DELETE", f"{_AGENT}/channels/telegram"),
        {},
        None,
    ),
    Hosted(
        "list channels",
        lambda hosted: hosted.list_channels("mine"),
        Asked("GET", f"{_AGENT}/channels"),
        {"channels": [{"name": "telegram"}]},
        [HostedChannel(name="telegram")],
    ),
    Hosted(
        "install a package",
        lambda hosted: hosted.install_package("mine", "gbrain"),
        Asked("POST", f"{_AGENT}/packages/gbrain"),
        {"agent_id": "mine", "package": "gbrain", "status": "installing"},
        PackageChange(agent_id="mine", package="gbrain", status="installing"),
    ),
    Hosted(
        "uninstall a package",
        lambda hosted: hosted.uninstall_package("mine", "gbrain"),
        Asked("DELETE", f"{_AGENT}/packages/gbrain"),
        {},
        None,
    ),
    Hosted(
        "list packages",
        lambda hosted: hosted.list_packages("mine"),
        Asked("GET", f"{_AGENT}/packages"),
        {"packages": []},
        [],
    ),
    Hosted(
        "create an instance",
        lambda hosted: hosted.create_instance("mine", metadata={"user": "7"}),
        Asked("POST", f"{_AGENT}/instances", {"metadata": {"user": "7"}}),
        _INSTANCE_ANSWER,
        _INSTANCE,
        201,
    ),
    Hosted(
        "list instances by metadata",
        lambda hosted: hosted.list_instances("mine", metadata={"user": "7"}),
        Asked("GET", f"{_AGENT}/instances", query={"metadata.user": "7"}),
        {"instances": [_INSTANCE_ANSWER]},
        [_INSTANCE],
    ),
    Hosted(
        "get an instance",
        lambda hosted: hosted.get_instance("mine", "inst_1"),
        Asked("GET", f"{_AGENT}/instances/inst_1"),
        _INSTANCE_ANSWER,
        _INSTANCE,
    ),
    Hosted(
        "delete an instance",
        lambda hosted: hosted.delete_instance("mine", "inst_1"),
        Asked("DELETE", f"{_AGENT}/instances/inst_1"),
        {},
        None,
    ),
    Hosted(
        "create a session",
        lambda hosted: hosted.create_session("mine", {"prompt": "hi"}, metadata={"a": "b"}),
        Asked("POST", f"{_AGENT}/sessions", {"input": {"prompt": "hi"}, "metadata": {"a": "b"}}),
        _SESSION_ANSWER,
        _SESSION,
        201,
    ),
    Hosted(
        "list sessions",
        lambda hosted: hosted.list_sessions("mine"),
        Asked("GET", f"{_AGENT}/sessions"),
        {"sessions": [_SESSION_ANSWER]},
        [_SESSION],
    ),
    Hosted(
        "get a session",
        lambda hosted: hosted.get_session("mine", "sess_1"),
        Asked("GET", f"{_AGENT}/sessions/sess_1"),
        _SESSION_ANSWER,
        _SESSION,
    ),
    Hosted(
        "delete a session",
        lambda hosted: hosted.delete_session("mine", "sess_1"),
        Asked("DELETE", f"{_AGENT}/sessions/sess_1"),
        {},
        None,
    ),
    Hosted(
        "result",
        lambda hosted: hosted.get_result("mine", "sess_1"),
        Asked("GET", f"{_AGENT}/sessions/sess_1/result"),
        {"data": {"n": 1}, "completed_at": "2026-01-02T03:04:05Z"},
        HostedResult(data={"n": 1}, completed_at="2026-01-02T03:04:05Z"),
    ),
    Hosted(
        "restart",
        lambda hosted: hosted.restart("mine"),
        Asked("POST", f"{_AGENT}/restart"),
        {"operation": _OPERATION},
        Operation(id="op_1", agent_id="mine", kind="create", state="running"),
    ),
    Hosted(
        "restart at once", lambda hosted: hosted.restart("mine"), Asked("POST", f"{_AGENT}/restart"), {}, None
    ),
    Hosted(
        "logs",
        lambda hosted: hosted.logs("mine", tail=5),
        Asked("GET", f"{_AGENT}/logs", query={"tail": "5"}),
        {"agent_id": "mine", "source": "gateway.log", "content": "ready\n"},
        HostedLogs(agent_id="mine", source="gateway.log", content="ready\n"),
    ),
    Hosted(
        "one operation",
        lambda hosted: hosted.get_operation("mine", "op_1"),
        Asked("GET", f"{_AGENT}/operations/op_1"),
        {"operation": _OPERATION},
        Operation(id="op_1", agent_id="mine", kind="create", state="running"),
    ),
)


@pytest.mark.parametrize("exchange", EXCHANGES, ids=lambda each: each.id)
async def test_hosted_agents(node: FakeNode, exchange: Hosted) -> None:
    async with HostedAgents(node.api_key, node.url) as hosted:
        await check(node, hosted, exchange)
        await check_unsupported(node, hosted, exchange)


@pytest.mark.parametrize("given", [{}, {"core": "hermes", "config": {}}])
async def test_an_agent_has_either_a_core_or_a_config(given: dict[str, str]) -> None:
    async with HostedAgents("k", "http://node.test") as hosted:
        with pytest.raises(ValueError, match="either a core or a config"):
            await hosted.create("mine", **given)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("word", ["succeeded", "success"])
async def test_creating_waits_until_the_agent_is_ready(node: FakeNode, word: str) -> None:
    ready = {**_DETAIL, "status": "ready", "current_operation": None}
    node.rules += [
        Rule("POST", "/v1/agents", 201, {"agent": _DETAIL, "operation": _OPERATION}),
        Rule("GET", f"{_AGENT}/operations/op_1", 200, {**_OPERATION, "state": word}),
        Rule("GET", _AGENT, 200, ready),
    ]
    async with HostedAgents(node.api_key, node.url) as hosted:
        agent = await hosted.create("mine", "hermes")
    assert (agent.status, agent.current_operation) == ("ready", None)


@pytest.mark.parametrize(
    ("ended", "reason"),
    [
        ({"state": "failed", "error": {"code": "core_not_ready", "message": "no answer"}}, "no answer"),
        ({"state": "error", "error": "broken"}, "broken"),
        ({"state": "canceled", "message": "by hand"}, "by hand"),
    ],
)
async def test_an_operation_that_fails_says_where_and_why(
    node: FakeNode, ended: dict[str, object], reason: str
) -> None:
    path = f"{_AGENT}/operations/op_1"
    node.rules += [
        Rule("GET", path, 200, _OPERATION, times=2),
        Rule("GET", path, 200, {**_OPERATION, "phase": "wait_core_ready", **ended}),
    ]
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    async with HostedAgents(node.api_key, node.url) as hosted:
        with pytest.raises(OperationFailedError, match=reason) as failed:
            await hosted.wait_operation("mine", "op_1", interval=2, sleep=sleep)
    assert (failed.value.phase, slept) == ("wait_core_ready", [2, 2])


async def test_events_and_operations_are_walked_back_in_time(node: FakeNode) -> None:
    node.rules += [
        Rule("GET", f"{_AGENT}/events", 200, {"events": [{"id": "e2"}], "next_before": "2026-01-02"}),
        Rule("GET", f"{_AGENT}/events", 200, {"events": [{"id": "e1"}], "next_before": None}),
        Rule("GET", f"{_AGENT}/operations", 200, {"operations": [_OPERATION]}),
    ]
    async with HostedAgents(node.api_key, node.url) as hosted:
        events = await hosted.events("mine", limit=1)
        assert [event.id async for event in events] == ["e2", "e1"]
        assert [each.id for each in await hosted.operations("mine", before="2026-01-01")] == ["op_1"]
    assert [seen.query for seen in node.seen] == [
        {"limit": "1"},
        {"limit": "1", "before": "2026-01-02"},
        {"before": "2026-01-01"},
    ]


_MESSAGES = f"{_AGENT}/instances/inst_1/messages"
_STREAM = {"content-type": "text/event-stream"}


def told(*parts: dict[str, object]) -> str:
    return ": keep-alive\n\n" + "".join(f"data: {json.dumps(part)}\n\n" for part in parts)


async def test_a_reply_comes_in_parts(node: FakeNode) -> None:
    stream = told(
        {"type": "text", "content": "Hel", "conversation_id": "c"},
        {"type": "text", "content": "lo", "conversation_id": "c"},
        {"type": "of_the_future", "content": "", "new": True},
        {"type": "error", "message": "one tool failed", "code": "tool"},
        {"type": "done"},
    )
    node.rules.append(Rule("POST", _MESSAGES, 200, stream, _STREAM, times=2))
    async with HostedAgents(node.api_key, node.url) as hosted:
        parts = [part async for part in hosted.send_message("mine", "inst_1", "hi", conversation_id="c")]
        whole = [{"role": "user", "content": "hi"}]
        again = [part async for part in hosted.send_message("mine", "inst_1", messages=whole)]
    assert parts == again
    assert "".join(part.content for part in parts) == "Hello"
    assert parts[2:] == [
        ReplyPart(type="of_the_future"),
        ReplyPart(type="error", message="one tool failed", code="tool"),
        ReplyPart(type="done"),
    ]
    assert [seen.body for seen in node.seen] == [
        {"content": "hi", "conversation_id": "c"},
        {"messages": whole},
    ]
    assert node.seen[0].headers["accept"] == "text/event-stream"


async def test_a_reply_that_breaks_off_is_an_error(node: FakeNode) -> None:
    node.rules.append(Rule("POST", _MESSAGES, 200, told({"type": "text", "content": "Hel"}), _STREAM))
    async with HostedAgents(node.api_key, node.url) as hosted:
        with pytest.raises(httpx.RemoteProtocolError, match="broke off"):
            [part async for part in hosted.send_message("mine", "inst_1", "hi")]
        with pytest.raises(ValueError, match="either content or messages"):
            [part async for part in hosted.send_message("mine", "inst_1")]


async def test_a_result_that_is_not_there_yet_is_a_conflict(node: FakeNode) -> None:
    body = {"error": {"type": "conflict", "message": "the session has not finished"}}
    node.rules.append(Rule("GET", f"{_AGENT}/sessions/sess_1/result", 409, body))
    async with HostedAgents(node.api_key, node.url) as hosted:
        with pytest.raises(ConflictError, match="not finished"):
            await hosted.get_result("mine", "sess_1")


@pytest.mark.parametrize("suffix", ["", "/", "/api", "/api/"])
async def test_the_address_is_the_root_of_the_own_server(
    node: FakeNode, monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    monkeypatch.setenv("OPENCOMPUTER_API_KEY", node.api_key)
    monkeypatch.setenv("OPENCOMPUTER_API_URL", node.url + suffix)
    node.rules.append(Rule("GET", "/v1/agents", 200, {"agents": []}))
    async with HostedAgents() as hosted:
        assert await hosted.list() == []
