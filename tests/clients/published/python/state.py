"""The published SDK's checkpoints, forks, patches, sleep and restarts."""

import asyncio

import httpx
from checks import covers, main, raises

from opencomputer import Sandbox

COUNTER = """python3 -u -c '
import http.server
class Count(http.server.BaseHTTPRequestHandler):
    number = 0
    def do_GET(self):
        Count.number += 1
        self.send_response(200); self.end_headers(); self.wfile.write(b"%d" % Count.number)
    def log_message(self, *_): pass
http.server.HTTPServer(("127.0.0.1", 8123), Count).serve_forever()
'"""


async def said(sandbox, script):
    """What a command that must succeed says."""
    result = await sandbox.exec.run(script)
    assert result.exit_code == 0, result
    return result.stdout.strip()


async def ready(sandbox, checkpoint):
    """The description of a checkpoint once it is more than processing."""
    for _ in range(600):
        (found,) = [each for each in await sandbox.list_checkpoints() if each["id"] == checkpoint["id"]]
        if found["status"] != "processing":
            return found
        await asyncio.sleep(0.1)
    raise AssertionError("the checkpoint is still processing")


async def refused(call, status):
    error = await raises(httpx.HTTPStatusError, call)
    assert error.response.status_code == status, error.response.text


@covers("A16")
async def a_checkpoint_is_described_listed_and_deleted(sandbox):
    created = await sandbox.create_checkpoint("first")
    assert created["status"] in ("processing", "ready")
    assert (created["name"], created["sandboxId"]) == ("first", sandbox.sandbox_id)
    found = await ready(sandbox, created)
    assert (found["status"], found["kind"]) == ("ready", "full")
    assert found["sizeBytes"] > 0
    assert found["sandboxConfig"]
    await refused(sandbox.create_checkpoint("first"), 409)
    await sandbox.delete_checkpoint(created["id"])
    await sandbox.delete_checkpoint(created["id"])
    assert created["id"] not in [each["id"] for each in await sandbox.list_checkpoints()]


@covers("A16")
async def a_checkpoint_takes_a_kind_and_makes_room_by_retention(sandbox):
    policy = {"mode": "delete_oldest", "maxCount": 1}
    names = ["one", "two"]
    for name in names:
        created = await sandbox.create_checkpoint(
            name, kind="disk_only", promote_to_full=False, retention_policy=policy
        )
        assert (await ready(sandbox, created))["kind"] == "disk_only"
    kept = [each["name"] for each in await sandbox.list_checkpoints() if each["kind"] == "disk_only"]
    assert kept == ["two"]
    await refused(sandbox.create_checkpoint("three", kind="full", promote_to_full=True), 400)
    await sandbox.delete_checkpoint(created["id"])


@covers("A4", "A16")
async def a_fork_goes_on_from_the_checkpoint_and_apart_from_its_source(sandbox):
    await sandbox.files.write("/tmp/shared", "before")
    session = await sandbox.exec.background("exec sleep 4321")
    created = await sandbox.create_checkpoint("fork me")
    # At once: the server waits until the checkpoint is ready.
    fork = await Sandbox.create_from_checkpoint(created["id"], envs={"SIDE": "fork"}, timeout=600)
    assert fork.sandbox_id != sandbox.sandbox_id
    assert fork.status == "running"
    assert await fork.files.read("/tmp/shared") == "before"
    assert await said(fork, "pgrep -xc sleep; echo $SIDE") == "1\nfork"
    await fork.files.write("/tmp/shared", "in the fork")
    assert await sandbox.files.read("/tmp/shared") == "before"
    names = [await said(each, "hostname; cat /etc/machine-id") for each in (fork, sandbox)]
    assert names[0] != names[1]
    await fork.kill()
    await fork.close()
    await session.kill()
    await sandbox.delete_checkpoint(created["id"])


@covers("A17")
async def restore_takes_everything_back_and_may_be_repeated(sandbox):
    await sandbox.files.write("/tmp/state", "then")
    created = await sandbox.create_checkpoint("to go back to")
    for round in range(2):
        await sandbox.files.write("/tmp/state", f"later {round}")
        await sandbox.files.write("/tmp/later", "later")
        await sandbox.restore_checkpoint(created["id"])
        # At once: the server makes the call wait.
        result = await sandbox.exec.run("cat /tmp/state; test -e /tmp/later")
        assert (result.exit_code, result.stdout) == (1, "then")
        assert await sandbox.files.read("/tmp/state") == "then"
    await sandbox.delete_checkpoint(created["id"])


@covers("A17")
async def an_unknown_checkpoint_is_not_found(sandbox):
    await refused(sandbox.restore_checkpoint("cp-00000000"), 404)
    await refused(Sandbox.create_from_checkpoint("cp-00000000"), 404)
    await refused(Sandbox.list_checkpoint_patches("cp-00000000"), 404)
    await Sandbox.delete_checkpoint_patch("cp-00000000", "pa-00000000")


@covers("A5")
async def patches_run_in_order_in_every_fork(sandbox):
    created = await sandbox.create_checkpoint("to patch", kind="disk_only")
    await ready(sandbox, created)
    first = await Sandbox.create_checkpoint_patch(created["id"], "echo 1 >> /tmp/patched", "the first")
    assert (first["patch"]["sequence"], first["patch"]["description"]) == (1, "the first")
    second = await Sandbox.create_checkpoint_patch(created["id"], "exit 3")
    await Sandbox.create_checkpoint_patch(created["id"], "echo 3 >> /tmp/patched")
    await Sandbox.delete_checkpoint_patch(created["id"], second["patch"]["id"])
    listed = await Sandbox.list_checkpoint_patches(created["id"])
    assert [(each["sequence"], each["strategy"]) for each in listed] == [(1, "on_wake"), (3, "on_wake")]
    fork = await Sandbox.create_from_checkpoint(created["id"])
    assert await fork.files.read("/tmp/patched") == "1\n3\n"
    await fork.kill()
    await fork.close()
    await refused(Sandbox.create_checkpoint_patch(created["id"], " "), 400)
    await sandbox.delete_checkpoint(created["id"])


@covers("A9")
async def a_process_counts_on_after_sleep(sandbox):
    session = await sandbox.exec.background(COUNTER)
    ask = "curl -s --retry 50 --retry-delay 1 --retry-connrefused http://127.0.0.1:8123/"
    assert await said(sandbox, ask) == "1"
    await sandbox.hibernate()
    assert not await sandbox.is_running()
    await sandbox.hibernate()
    await sandbox.wake()
    await sandbox.wake(timeout=0)
    assert await sandbox.is_running()
    assert await said(sandbox, ask) == "2"
    await session.kill()


@covers("A9", "A20", "A29")
async def a_command_or_a_file_wakes(sandbox):
    await sandbox.files.write("/tmp/asleep", "kept")
    await sandbox.hibernate()
    assert await said(sandbox, "cat /tmp/asleep") == "kept"
    await sandbox.hibernate()
    assert await sandbox.files.read("/tmp/asleep") == "kept"
    await sandbox.hibernate()
    connected = await Sandbox.connect(sandbox.sandbox_id)
    assert connected.status == "hibernated"
    assert await said(connected, "echo $((6 * 7))") == "42"
    await connected.close()


@covers("A8", "A9")
async def a_timeout_puts_to_sleep_what_nobody_uses(sandbox):
    await sandbox.set_timeout(1)
    for _ in range(600):
        if not await sandbox.is_running():
            break
        await asyncio.sleep(0.1)
    assert not await sandbox.is_running()
    await sandbox.set_timeout(0)
    assert await said(sandbox, "echo awake") == "awake"


@covers("A10")
async def restarts_keep_the_files_and_end_the_processes(sandbox):
    for restart in (sandbox.reboot, sandbox.power_cycle):
        await sandbox.exec.background("exec sleep 4322")
        await sandbox.files.write("/home/sandbox/kept", restart.__name__)
        await restart()
        assert await said(sandbox, "pgrep -xc sleep || cat ~/kept") == f"0\n{restart.__name__}"


@covers("A6", "A9", "A16")
async def kill_ends_what_sleeps_and_leaves_its_checkpoints(sandbox):
    source = await Sandbox.create()
    await source.files.write("/home/sandbox/mine", "mine")
    created = await source.create_checkpoint("outlives", kind="disk_only")
    await ready(source, created)
    await source.hibernate()
    await source.kill()
    await refused(source.wake(), 410)
    assert [each["id"] for each in await source.list_checkpoints()] == [created["id"]]
    async with await Sandbox.create_from_checkpoint(created["id"]) as fork:
        assert await fork.files.read("/home/sandbox/mine") == "mine"
    await source.delete_checkpoint(created["id"])
    await source.close()


main()
