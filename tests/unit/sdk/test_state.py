"""Forks, sleep, reboot and diff of a sandbox."""

from __future__ import annotations

import pytest

from opencomputer import ConflictError, FileChange, NotFoundError, Sandbox, UnavailableError
from tests.support.fake_node import FakeNode, Rule
from tests.support.fake_node.node import FakeSandbox

pytestmark = pytest.mark.anyio


# Forks


async def test_a_fork_goes_on_from_a_checkpoint(node: FakeNode, sandbox: Sandbox) -> None:
    checkpoint = await sandbox.create_checkpoint("before")
    made = await Sandbox.create_from_checkpoint(checkpoint.id, api_key=node.api_key, api_url=node.url)
    assert made.id != sandbox.id
    assert (made.status, made.memory_restored, made.from_checkpoint_id) == ("running", True, checkpoint.id)
    assert (await made.exec.run("echo here")).stdout == "here\n"
    assert node.requests("POST", f"/from-checkpoint/{checkpoint.id}")[0].body == {"timeout": 0}
    await made.close()


async def test_all_options_of_a_fork_are_sent(node: FakeNode, sandbox: Sandbox) -> None:
    checkpoint = await sandbox.create_checkpoint("before", "disk_only")
    made = await Sandbox.create_from_checkpoint(
        checkpoint.id, 60, node.api_key, node.url, {"A": "b"}, "store", metadata={"c": "d"}, memory_mb=8192
    )
    assert node.requests("POST", f"/from-checkpoint/{checkpoint.id}")[0].body == {
        "timeout": 60,
        "envs": {"A": "b"},
        "metadata": {"c": "d"},
        "memoryMB": 8192,
        "secretStore": "store",
    }
    assert (made.memory_restored, made.memory_mb) == (False, 8192)
    await made.close()


async def test_a_fork_can_be_a_context(node: FakeNode, sandbox: Sandbox) -> None:
    checkpoint = await sandbox.create_checkpoint("before")
    async with Sandbox.create_from_checkpoint(checkpoint.id, api_key=node.api_key, api_url=node.url) as made:
        pass
    assert node.sandboxes[made.id].description["status"] == "stopped"


async def test_a_fork_of_nothing_raises(node: FakeNode) -> None:
    with pytest.raises(NotFoundError):
        await Sandbox.create_from_checkpoint("cp-none", api_key=node.api_key, api_url=node.url)


async def test_a_running_sandbox_is_forked_in_one_call(node: FakeNode, sandbox: Sandbox) -> None:
    await sandbox.files.write("/note", "hello")
    forks = await sandbox.fork(3, envs={"A": "b"}, timeout=5)
    assert len({sandbox.id, *(each.id for each in forks)}) == 4
    assert [await each.files.read("/note") for each in forks] == ["hello"] * 3
    assert {each.memory_restored for each in forks} == {True}
    assert node.requests("POST", "/fork")[0].body == {"count": 3, "timeout": 5, "envs": {"A": "b"}}
    for each in forks:
        await each.kill()
        await each.close()
    assert await sandbox.is_running()


async def test_closing_a_fork_leaves_the_others_connected(sandbox: Sandbox) -> None:
    (fork,) = await sandbox.fork()
    await fork.close()
    assert await sandbox.is_running()


async def test_a_fork_is_asked_for_again_with_its_idempotency_key(node: FakeNode, sandbox: Sandbox) -> None:
    made = await sandbox.create_checkpoint("before")
    of_checkpoint = f"/sandboxes/from-checkpoint/{made.id}"
    for path in (f"/sandboxes/{sandbox.id}/fork", of_checkpoint):
        node.rules.append(Rule("POST", path, 503, {"error": "no", "code": "no_capacity"}))
    await sandbox.fork()
    await Sandbox.create_from_checkpoint(made.id, api_url=node.url, api_key=node.api_key)
    for path in ("/fork", of_checkpoint):
        first, second = node.requests("POST", path)
        assert first.headers["idempotency-key"] == second.headers["idempotency-key"]
        assert first.body == second.body


# Sleep


async def test_hibernate_and_wake_change_the_status(node: FakeNode, sandbox: Sandbox) -> None:
    await sandbox.hibernate()
    assert sandbox.status == "hibernated"
    await sandbox.wake()
    assert sandbox.status == "running"
    assert node.requests("POST", "/wake")[0].body == {}


async def test_wake_may_set_a_new_idle_time(node: FakeNode, sandbox: Sandbox, inside: FakeSandbox) -> None:
    await sandbox.hibernate()
    await sandbox.wake(timeout=0)
    assert node.requests("POST", "/wake")[0].body == {"timeout": 0}
    assert inside.description["timeout"] == 0


async def test_wake_learns_where_sockets_go_now(sandbox: Sandbox, inside: FakeSandbox) -> None:
    inside.description |= {"token": "another", "recovered": 2, "patchError": "patch 1: exit code 3"}
    await sandbox.wake()
    assert (sandbox.recovered, sandbox.patch_error) == (2, "patch 1: exit code 3")
    session = await sandbox.exec.start("true", ["x"])
    assert await session.done == 0


async def test_what_a_fork_took_over_is_not_forgotten_by_a_wake(sandbox: Sandbox, node: FakeNode) -> None:
    (fork,) = await sandbox.fork()
    node.sandboxes[fork.id].description.pop("memoryRestored")
    await fork.hibernate()
    await fork.wake()
    assert fork.memory_restored
    await fork.close()


@pytest.mark.parametrize("call", ["hibernate", "wake"])
async def test_falling_asleep_and_waking_may_be_asked_twice(
    node: FakeNode, sandbox: Sandbox, call: str
) -> None:
    node.rules.append(Rule("POST", f"/sandboxes/{sandbox.id}/{call}", 503, {"error": "later"}))
    await getattr(sandbox, call)()
    assert len(node.requests("POST", f"/{call}")) == 2


async def test_what_cannot_be_put_to_sleep_stays_as_it_is(node: FakeNode, sandbox: Sandbox) -> None:
    refusal = {"error": "a file is held open", "code": "snapshot_refused"}
    node.rules.append(Rule("POST", f"/sandboxes/{sandbox.id}/hibernate", 409, refusal))
    with pytest.raises(ConflictError, match="a file is held open") as raised:
        await sandbox.hibernate()
    assert raised.value.code == "snapshot_refused"
    assert sandbox.status == "running"


async def test_a_full_host_is_a_passing_condition(node: FakeNode, sandbox: Sandbox) -> None:
    refusal = {"error": "no room", "code": "host_disk_full"}
    node.rules.append(Rule("POST", f"/sandboxes/{sandbox.id}/hibernate", 507, refusal))
    with pytest.raises(UnavailableError):
        await sandbox.hibernate()


@pytest.mark.parametrize(("call", "path"), [("reboot", "/reboot"), ("power_cycle", "/power-cycle")])
async def test_starting_anew_is_asked_for_once(
    node: FakeNode, sandbox: Sandbox, call: str, path: str
) -> None:
    session = await sandbox.exec.start("sleep", ["60"])
    await getattr(sandbox, call)()
    assert await session.done != 0
    node.rules.append(Rule("POST", f"/sandboxes/{sandbox.id}{path}", 503, {"error": "later"}))
    with pytest.raises(UnavailableError):
        await getattr(sandbox, call)()
    assert len(node.requests("POST", path)) == 2


# Diff


async def test_a_diff_is_a_list_of_changes(node: FakeNode, sandbox: Sandbox) -> None:
    node.changes = [
        {"path": "/home/sandbox/a", "kind": "added", "size": 5, "isDirectory": False},
        {"path": "/home/sandbox/d", "kind": "deleted", "size": 0, "isDirectory": True, "mode": 7},
    ]
    assert await sandbox.diff() == [
        FileChange("/home/sandbox/a", "added", 5),
        FileChange("/home/sandbox/d", "deleted", 0, is_dir=True),
    ]
    assert node.requests("GET", "/diff")[0].query == {}


async def test_a_diff_may_begin_at_a_checkpoint(node: FakeNode, sandbox: Sandbox) -> None:
    checkpoint = await sandbox.create_checkpoint("before")
    assert await sandbox.diff(checkpoint.id) == []
    assert node.requests("GET", "/diff")[0].query == {"from": checkpoint.id}
    with pytest.raises(NotFoundError):
        await sandbox.diff("cp-none")
