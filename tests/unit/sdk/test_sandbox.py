"""`Sandbox`: making, finding, ending."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from opencomputer import AuthError, NotFoundError, Sandbox, UnexpectedAnswerError
from tests.support.fake_node import FakeNode, Rule
from tests.support.fake_node.node import FakeSandbox

pytestmark = pytest.mark.anyio


async def test_create_sends_what_was_asked_for(node: FakeNode) -> None:
    sandbox = await Sandbox.create(
        template="node",
        timeout=60,
        api_key=node.api_key,
        api_url=node.url,
        envs={"A": "b"},
        metadata={"team": "x"},
        disk_mb=20480,
        memory_mb=8192,
        cpu_count=2,
    )
    assert node.requests("POST", "/sandboxes")[0].body == {
        "templateID": "node",
        "timeout": 60,
        "envs": {"A": "b"},
        "metadata": {"team": "x"},
        "diskMB": 20480,
        "memoryMB": 8192,
        "cpuCount": 2,
    }
    assert sandbox.template == "node"
    await sandbox.close()


async def test_create_without_options_sends_the_two_defaults(node: FakeNode, sandbox: Sandbox) -> None:
    assert node.requests("POST", "/sandboxes")[0].body == {"templateID": "base", "timeout": 0}


async def test_a_sandbox_shows_what_the_server_said(sandbox: Sandbox) -> None:
    assert sandbox.sandbox_id == sandbox.id
    assert sandbox.id.startswith("sb-")
    assert (sandbox.status, sandbox.domain, sandbox.end_at) == ("running", "preview.test", None)
    assert (sandbox.memory_mb, sandbox.cpu_count) == (4096, 1)
    assert repr(sandbox) == f"<Sandbox {sandbox.id} running>"


async def test_the_parts_are_made_once(sandbox: Sandbox) -> None:
    assert sandbox.exec is sandbox.exec
    assert sandbox.files is sandbox.files


async def test_commands_is_the_old_name_of_exec(sandbox: Sandbox) -> None:
    with pytest.deprecated_call():
        assert sandbox.commands is sandbox.exec


async def test_key_and_address_come_from_the_environment(
    node: FakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENCOMPUTER_API_KEY", node.api_key)
    monkeypatch.setenv("OPENCOMPUTER_API_URL", node.url)
    async with Sandbox.create() as sandbox:
        assert sandbox.status == "running"


async def test_both_context_forms_kill_at_the_end(node: FakeNode) -> None:
    async with Sandbox.create(api_key=node.api_key, api_url=node.url) as one:
        pass
    async with await Sandbox.create(api_key=node.api_key, api_url=node.url) as two:
        pass
    assert [one.status, two.status] == ["stopped", "stopped"]
    assert {inside.description["status"] for inside in node.sandboxes.values()} == {"stopped"}


async def test_a_killed_sandbox_is_not_killed_again(node: FakeNode) -> None:
    async with Sandbox.create(api_key=node.api_key, api_url=node.url) as sandbox:
        await sandbox.kill()
    assert len(node.requests("DELETE", sandbox.id)) == 1


async def test_a_failing_kill_does_not_hide_the_error_of_the_block(node: FakeNode) -> None:
    with pytest.raises(LookupError) as raised:
        await fail_inside_a_sandbox_that_cannot_be_killed(node)
    assert "broken" in raised.value.__notes__[0]


async def fail_inside_a_sandbox_that_cannot_be_killed(node: FakeNode) -> None:
    async with Sandbox.create(api_key=node.api_key, api_url=node.url) as sandbox:
        node.rules.append(Rule("DELETE", f"/sandboxes/{sandbox.id}", 500, {"error": "broken"}))
        raise LookupError("the caller's")


async def test_a_failing_kill_is_an_error_when_there_is_no_other(node: FakeNode) -> None:
    with pytest.raises(httpx.HTTPStatusError, match="broken"):
        async with Sandbox.create(api_key=node.api_key, api_url=node.url) as sandbox:
            node.rules.append(Rule("DELETE", f"/sandboxes/{sandbox.id}", 500, {"error": "broken"}))


async def test_create_can_be_made_a_task(node: FakeNode) -> None:
    sandboxes = await asyncio.gather(
        *(asyncio.create_task(Sandbox.create(api_key=node.api_key, api_url=node.url)) for _ in range(3))
    )
    assert len({sandbox.id for sandbox in sandboxes}) == 3
    await asyncio.gather(*(sandbox.close() for sandbox in sandboxes))


async def test_a_repeated_create_has_the_same_idempotency_key(node: FakeNode) -> None:
    node.rules.append(Rule("POST", "/sandboxes", 503, {"error": "no", "code": "no_capacity"}))
    sandbox = await Sandbox.create(api_key=node.api_key, api_url=node.url)
    first, second = node.requests("POST", "/sandboxes")
    assert first.headers["idempotency-key"] == second.headers["idempotency-key"]
    await sandbox.close()


async def test_connect_finds_a_sandbox(node: FakeNode, sandbox: Sandbox) -> None:
    found = await Sandbox.connect(sandbox.id, node.api_key, node.url)
    assert (found.id, found.template) == (sandbox.id, "base")
    assert (await found.exec.run("echo same")).stdout == "same\n"
    await found.close()


async def test_connecting_to_nothing_raises(node: FakeNode) -> None:
    with pytest.raises(NotFoundError):
        await Sandbox.connect("sb-none", node.api_key, node.url)


async def test_a_wrong_key_raises(node: FakeNode) -> None:
    with pytest.raises(AuthError):
        await Sandbox.create(api_key="osb_wrong", api_url=node.url)


async def test_an_answer_without_an_id_is_not_a_sandbox(node: FakeNode) -> None:
    node.rules.append(Rule("POST", "/sandboxes", 201, {"status": "running"}))
    with pytest.raises(UnexpectedAnswerError, match="sandboxID"):
        await Sandbox.create(api_key=node.api_key, api_url=node.url)


async def test_list_gives_the_servers_own_objects(node: FakeNode, sandbox: Sandbox) -> None:
    (listed,) = await Sandbox.list(node.api_key, node.url)
    assert listed["sandboxID"] == sandbox.id


async def test_is_running_follows_the_server(sandbox: Sandbox, inside: FakeSandbox) -> None:
    assert await sandbox.is_running()
    inside.description["status"] = "hibernated"
    assert not await sandbox.is_running()
    assert sandbox.status == "hibernated"


async def test_is_running_is_false_for_any_refusal(node: FakeNode, sandbox: Sandbox) -> None:
    node.sandboxes.clear()
    assert not await sandbox.is_running()


async def test_set_timeout_reaches_the_server(sandbox: Sandbox, inside: FakeSandbox) -> None:
    await sandbox.set_timeout(90)
    assert inside.description["timeout"] == 90


async def test_close_leaves_the_sandbox_running_and_detaches_its_sessions(
    node: FakeNode, inside: FakeSandbox
) -> None:
    sandbox = await Sandbox.connect(str(inside.description["sandboxID"]), node.api_key, node.url)
    session = await sandbox.exec.start("sleep", ["30"])
    await sandbox.close()
    await sandbox.close()
    assert await session.done == -1
    assert inside.description["status"] == "running"
    assert inside.sessions[session.session_id].exit_code is None


async def test_sockets_fall_back_to_the_key_when_the_token_is_refused(
    node: FakeNode, sandbox: Sandbox, inside: FakeSandbox
) -> None:
    inside.description["token"] = "expired"
    found = await Sandbox.connect(sandbox.id, node.api_key, node.url)
    session = await found.exec.start("true", ["x"])
    assert await session.done == 0
    last = node.requests("WS", session.session_id)[-1]
    assert last.query == {"api_key": node.api_key}
    assert last.headers["x-api-key"] == node.api_key
    await found.close()


async def test_without_a_socket_address_the_control_plane_is_used(node: FakeNode) -> None:
    inside = node.add_sandbox(connectURL="", token="")
    found = await Sandbox.connect(str(inside.description["sandboxID"]), node.api_key, node.url)
    session = await found.exec.start("true", ["x"])
    assert await session.done == 0
    await found.close()
