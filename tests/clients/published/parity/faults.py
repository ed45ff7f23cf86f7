"""Runs into faults with the `opencomputer` of this interpreter, and prints what was raised, as JSON by fault.

What was raised is the list of its classes, most special first. The server has been told to answer so.
"""

import asyncio
import json
import os
import sys

from opencomputer import Image, Sandbox, SecretStore, Snapshots

URL, KEY = os.environ["OPENCOMPUTER_API_URL"], os.environ["OPENCOMPUTER_API_KEY"]


async def wrong_key(sandbox):
    await Sandbox.create(api_key="osb_wrong")


async def no_such_sandbox(sandbox):
    await Sandbox.connect("sb-none")


async def no_server(sandbox):
    await Sandbox.create(api_url="http://127.0.0.1:1")


async def no_such_file(sandbox):
    await sandbox.files.read("/none")


async def a_failing_server(sandbox):
    await sandbox.set_timeout(5)


async def a_kill_that_is_refused(sandbox):
    await sandbox.kill()


async def a_restore_of_nothing(sandbox):
    await sandbox.restore_checkpoint("cp-none")


async def a_locked_size(sandbox):
    await sandbox.scale(1024)


async def a_size_beyond_the_plan(sandbox):
    await sandbox.set_autoscale(True, max_memory_mb=16384)


async def a_family_without_sizes(sandbox):
    await sandbox.scale(2048)


async def a_build_that_fails(sandbox):
    await Sandbox.create(image=Image.base().run_commands("false"))


async def a_snapshot_that_fails(sandbox):
    await Snapshots().create("one", Image.base())


async def a_refused_build(sandbox):
    await Sandbox.create(snapshot="none", template="refused")


async def no_such_store(sandbox):
    await SecretStore.get("none")


async def a_store_that_cannot_be_deleted(sandbox):
    await SecretStore.delete("none")


async def a_busy_shell(sandbox):
    shell = await sandbox.exec.shell()
    running = asyncio.create_task(shell.run("sleep 2"))
    await asyncio.sleep(0)
    try:
        await shell.run("true")
    finally:
        await running
        await shell.close()


async def a_shell_that_exits(sandbox):
    shell = await sandbox.exec.shell()
    await shell.run("exit 3")


async def a_shell_that_has_ended(sandbox):
    shell = await sandbox.exec.shell()
    try:
        await shell.run("exit 3")
    except Exception:
        await shell.run("true")


async def a_terminal_that_has_ended(sandbox):
    terminal = await sandbox.pty.create()
    await terminal.send("exit\n")
    while True:
        await terminal.recv()


async def typing_into_it(sandbox):
    terminal = await sandbox.pty.create()
    await terminal.send("exit\n")
    try:
        while True:
            await terminal.recv()
    except Exception:
        await terminal.send("more")


async def no_such_session(sandbox):
    await sandbox.exec.attach("none")


async def a_command_that_is_refused(sandbox):
    await sandbox.exec.start("refused")


async def an_answer_that_is_not_json(sandbox):
    await sandbox.get_autoscale()


FAULTS = [value for name, value in list(globals().items()) if asyncio.iscoroutinefunction(value)]


def named(kind):
    top = kind.__module__.partition(".")[0]
    return f"{top}.{kind.__name__}"


async def main():
    sandbox = await Sandbox.create()
    raised = {}
    for fault in FAULTS:
        try:
            await fault(sandbox)
        except Exception as error:
            raised[fault.__name__] = [named(kind) for kind in type(error).__mro__[:-2]]
    json.dump(raised, sys.stdout)


asyncio.run(main())
