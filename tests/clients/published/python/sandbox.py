"""The published SDK's `Sandbox`: create, connect, kill, is_running, set_timeout; `Tags` and `Usage`."""

import httpx
from checks import covers, main, raises

from opencomputer import Sandbox, Tags, Usage


@covers("A1")
async def create_answers_with_a_running_sandbox(sandbox):
    assert sandbox.sandbox_id.startswith("sb-")
    assert sandbox.status == "running"
    assert sandbox.end_at is None
    assert sandbox.preview_auth_token == ""


@covers("A1")
async def create_takes_envs_and_metadata():
    async with await Sandbox.create(envs={"GREETING": "hello there"}, metadata={"team": "a"}) as sandbox:
        result = await sandbox.exec.run('echo "$GREETING"')
        assert result.stdout == "hello there\n"


@covers("A1")
async def create_takes_memory_and_disk():
    async with await Sandbox.create(memory_mb=1024, disk_mb=30720, burst=False) as sandbox:
        assert await sandbox.is_running()
        assert (await sandbox.exec.run("df -m --output=size / | tail -1")).stdout.strip().isdigit()


@covers("A1")
async def create_refuses_a_size_that_is_no_tier():
    error = await raises(httpx.HTTPStatusError, Sandbox.create(memory_mb=1000))
    assert error.response.status_code == 400


@covers("A1")
async def create_with_an_unknown_template_is_not_found():
    error = await raises(httpx.HTTPStatusError, Sandbox.create("no-such-template"))
    assert error.response.status_code == 404


@covers("A1")
async def create_with_an_unknown_key_is_unauthorised():
    error = await raises(httpx.HTTPStatusError, Sandbox.create(api_key="osb_" + "0" * 64))
    assert error.response.status_code == 401


@covers("A3")
async def connect_reaches_the_same_machine(sandbox):
    await sandbox.files.write("/tmp/connected", "here")
    again = await Sandbox.connect(sandbox.sandbox_id)
    assert (again.status, again.template) == ("running", "base")
    assert await again.files.read("/tmp/connected") == "here"
    assert (await again.exec.run("cat /tmp/connected")).stdout == "here"
    await again.close()


@covers("A3")
async def connect_to_an_unknown_sandbox_is_not_found():
    error = await raises(httpx.HTTPStatusError, Sandbox.connect("sb-00000000"))
    assert error.response.status_code == 404


@covers("A6", "A7")
async def kill_ends_the_sandbox():
    sandbox = await Sandbox.create()
    assert await sandbox.is_running()
    await sandbox.kill()
    assert sandbox.status == "stopped"
    assert not await sandbox.is_running()
    await sandbox.close()


@covers("A6")
async def kill_may_be_repeated_and_told_to_delete_the_secret_store():
    sandbox = await Sandbox.create()
    await sandbox.kill(delete_secret_store=True)
    await sandbox.kill()
    await sandbox.close()


@covers("A6", "A7")
async def leaving_the_context_kills():
    async with await Sandbox.create() as sandbox:
        identity = sandbox.sandbox_id
    again = await Sandbox.connect(identity)
    assert again.status == "stopped"
    assert not await again.is_running()
    await again.close()


@covers("A8")
async def set_timeout_takes_any_number_of_seconds(sandbox):
    await sandbox.set_timeout(3600)
    await sandbox.set_timeout(0)


@covers("A8")
async def set_timeout_refuses_a_negative_number(sandbox):
    error = await raises(httpx.HTTPStatusError, sandbox.set_timeout(-1))
    assert error.response.status_code == 400


@covers("A39")
async def tags_are_put_read_and_counted(sandbox):
    tags = Tags._from_client(sandbox._client)
    assert await tags.get(sandbox.sandbox_id) == ({}, None)
    put, moment = await tags.set(sandbox.sandbox_id, {"published-python": "a"})
    assert put == {"published-python": "a"}
    assert await tags.get(sandbox.sandbox_id) == (put, moment)
    (key,) = [each for each in await tags.list_keys() if each.key == "published-python"]
    assert (key.sandbox_count, key.value_count) == (1, 1)


@covers("A38")
async def usage_is_told_by_sandbox_by_tag_and_minute_by_minute(sandbox):
    usage = Usage._from_client(sandbox._client)
    series = await usage.for_sandbox(sandbox.sandbox_id)
    assert len(series.points) in (60, 61)
    for name in ("memory_allocated_gb_seconds", "memory_used_gb_seconds", "uptime_seconds"):
        assert sum(getattr(each, name) for each in series.points) == getattr(series.totals, name)
    assert series.totals.memory_allocated_gb_seconds == 4 * series.totals.uptime_seconds
    everything = await usage.by_sandbox(limit=500)
    assert everything.total.memory_gb_seconds >= series.totals.memory_allocated_gb_seconds
    by_tag = await usage.by_tag("no-such-tag", filter={"tag:no-such-tag": ""})
    assert (by_tag.items, by_tag.next_cursor) == ([], None)
    assert by_tag.untagged.memory_gb_seconds == by_tag.total.memory_gb_seconds


main()
