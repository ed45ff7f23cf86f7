"""Checkpoints of a sandbox, and their patches."""

from __future__ import annotations

import pytest

from opencomputer import CheckpointFailedError, ConflictError, NotFoundError, Sandbox
from tests.support.fake_node import FakeNode, Rule
from tests.support.fake_node.node import FakeSandbox

pytestmark = pytest.mark.anyio


async def at_once(_seconds: float) -> None:
    """Sleep without sleeping."""


async def test_a_checkpoint_is_a_dict_with_names_for_what_matters(node: FakeNode, sandbox: Sandbox) -> None:
    checkpoint = await sandbox.create_checkpoint("before")
    assert (checkpoint.id, checkpoint.name, checkpoint.kind) == (checkpoint["id"], "before", "full")
    assert (checkpoint.status, checkpoint.size_bytes) == ("processing", 0)
    assert checkpoint["sandboxId"] == sandbox.id
    assert node.requests("POST", "/checkpoints")[0].body == {"name": "before"}


async def test_all_options_of_a_checkpoint_are_sent(node: FakeNode, sandbox: Sandbox) -> None:
    policy = {"mode": "delete_oldest", "maxCount": 3}
    await sandbox.create_checkpoint("x", "disk_only", promote_to_full=False, retention_policy=policy)
    assert node.requests("POST", "/checkpoints")[0].body == {
        "name": "x",
        "kind": "disk_only",
        "promoteToFull": False,
        "retentionPolicy": policy,
    }


async def test_a_checkpoint_is_never_asked_for_twice(node: FakeNode, sandbox: Sandbox) -> None:
    """The second one would be refused, because its name is taken."""
    node.rules.append(Rule("POST", f"/sandboxes/{sandbox.id}/checkpoints", 503, {"error": "later"}))
    with pytest.raises(Exception, match="later"):
        await sandbox.create_checkpoint("before")
    assert len(node.requests("POST", "/checkpoints")) == 1


async def test_a_name_that_is_taken_raises(sandbox: Sandbox) -> None:
    await sandbox.create_checkpoint("same")
    with pytest.raises(ConflictError):
        await sandbox.create_checkpoint("same")


async def test_one_can_wait_until_a_checkpoint_is_ready(sandbox: Sandbox) -> None:
    checkpoint = await sandbox.create_checkpoint("before")
    waited = await checkpoint.wait_until_ready(sleep=at_once)
    assert waited is checkpoint
    assert (checkpoint.status, checkpoint.size_bytes) == ("ready", 5 << 20)


async def test_waiting_for_one_that_fails_raises_with_the_servers_reason(
    node: FakeNode, sandbox: Sandbox
) -> None:
    node.checkpoint_ends = {"status": "failed", "errorMsg": "the disk is full"}
    checkpoint = await sandbox.create_checkpoint("before")
    with pytest.raises(CheckpointFailedError, match="the disk is full") as raised:
        await checkpoint.wait_until_ready(sleep=at_once)
    assert (raised.value.checkpoint_id, raised.value.reason) == (checkpoint.id, "the disk is full")


async def test_waiting_for_one_that_is_deleted_raises(sandbox: Sandbox) -> None:
    checkpoint = await sandbox.create_checkpoint("before")
    await sandbox.delete_checkpoint(checkpoint.id)
    with pytest.raises(CheckpointFailedError, match="it was deleted"):
        await checkpoint.wait_until_ready(sleep=at_once)


async def test_waiting_has_an_end(node: FakeNode, sandbox: Sandbox) -> None:
    node.checkpoint_ends = {}
    checkpoint = await sandbox.create_checkpoint("before")
    with pytest.raises(TimeoutError):
        await checkpoint.wait_until_ready(0.2, sleep=at_once)


async def test_lists_are_newest_first_and_hold_this_sandboxs_own(node: FakeNode, sandbox: Sandbox) -> None:
    other = await Sandbox.connect(str(node.add_sandbox().description["sandboxID"]), node.api_key, node.url)
    await other.create_checkpoint("other")
    await other.close()
    for name in ("one", "two"):
        await sandbox.create_checkpoint(name)
    assert [each.name for each in await sandbox.list_checkpoints()] == ["two", "one"]


async def test_deleting_what_is_not_there_is_no_error(sandbox: Sandbox) -> None:
    await sandbox.delete_checkpoint("cp-none")
    checkpoint = await sandbox.create_checkpoint("before")
    await sandbox.delete_checkpoint(checkpoint.id)
    assert await sandbox.list_checkpoints() == []


async def test_restoring_refreshes_what_is_known_of_the_sandbox(
    sandbox: Sandbox, inside: FakeSandbox
) -> None:
    checkpoint = await sandbox.create_checkpoint("before")
    session = await sandbox.exec.start("sleep", ["60"])
    inside.description |= {"memoryMB": 8192, "token": "expired"}
    await sandbox.restore_checkpoint(checkpoint.id)
    assert sandbox.memory_mb == 8192
    assert await session.done != 0
    # The token is a good one again.
    assert (await sandbox.exec.run("echo again")).stdout == "again\n"


async def test_restoring_an_unknown_checkpoint_raises(sandbox: Sandbox) -> None:
    with pytest.raises(NotFoundError):
        await sandbox.restore_checkpoint("cp-none")


async def test_a_checkpoint_can_be_made_public_and_private_again(sandbox: Sandbox) -> None:
    checkpoint = await sandbox.create_checkpoint("before")
    assert (await sandbox.checkpoints.publish(checkpoint.id))["isPublic"] is True
    assert (await sandbox.checkpoints.unpublish(checkpoint.id))["isPublic"] is False


async def test_ids_are_encoded(node: FakeNode, sandbox: Sandbox) -> None:
    with pytest.raises(NotFoundError):
        await sandbox.restore_checkpoint("a?b")
    assert node.seen[-1].path == f"/sandboxes/{sandbox.id}/checkpoints/a%3Fb/restore"


# Patches


async def test_patches_are_created_listed_and_deleted(node: FakeNode, sandbox: Sandbox) -> None:
    server = {"api_key": node.api_key, "api_url": node.url}
    checkpoint = await sandbox.create_checkpoint("before")
    first = await Sandbox.create_checkpoint_patch(checkpoint.id, "true", "does nothing", **server)
    second = await Sandbox.create_checkpoint_patch(checkpoint.id, "false", **server)
    assert "patch" in first
    listed = await Sandbox.list_checkpoint_patches(checkpoint.id, **server)
    assert [(each["sequence"], each["script"]) for each in listed] == [(1, "true"), (2, "false")]
    assert listed[0] == first["patch"]
    await Sandbox.delete_checkpoint_patch(checkpoint.id, str(listed[0]["id"]), **server)
    await Sandbox.delete_checkpoint_patch(checkpoint.id, "pa-none", **server)
    assert [second["patch"]] == await Sandbox.list_checkpoint_patches(checkpoint.id, **server)
    bodies = [seen.body for seen in node.requests("POST", "/patches")]
    assert bodies == [{"script": "true", "description": "does nothing"}, {"script": "false"}]


async def test_a_patch_of_an_unknown_checkpoint_raises(node: FakeNode) -> None:
    with pytest.raises(NotFoundError):
        await Sandbox.create_checkpoint_patch("cp-none", "true", api_key=node.api_key, api_url=node.url)
