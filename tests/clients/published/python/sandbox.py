"""The published SDK's `Sandbox`: create, connect, kill, is_running, set_timeout."""

import httpx
from checks import covers, main, raises

from opencomputer import Sandbox


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


main()
