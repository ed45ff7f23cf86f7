"""What a typed program writes. Never run: pyright reads it with all other files."""

from __future__ import annotations

import os
from collections.abc import Mapping

from opencomputer import AgentEvent, Image, OpenComputer, Sandbox, SecretStore, Snapshots
from opencomputer.durable import AgentMessage, SessionEvent, TurnCompleted


def on_event(event: AgentEvent) -> None:
    print(event.data["message"]["content"], event["claude_session_id"], event.get("total_cost_usd", 0))


async def answers_can_be_used_as_they_come(sandbox: Sandbox) -> None:
    preview = await sandbox.create_preview_url(3000)
    host: str = preview["hostname"]
    patch = await Sandbox.create_checkpoint_patch("checkpoint", "true")
    await Sandbox.delete_checkpoint_patch("checkpoint", patch["patch"]["id"])
    for each in await Sandbox.list():
        await (await Sandbox.connect(each["sandboxID"])).close()
    store = await SecretStore.create(host)
    await SecretStore.set_secret(store["id"], "TOKEN", "value", allowed_hosts=["api.example.com"])
    checkpoint = await sandbox.create_checkpoint("before")
    await sandbox.restore_checkpoint(checkpoint["id"])
    await sandbox.agent.start(prompt="go", on_event=on_event, mcp_servers={"one": {"command": "c"}})


async def mappings_and_tuples_are_taken(sandbox: Sandbox, manifest: Mapping[str, object]) -> None:
    await sandbox.exec.run("env", env=os.environ)
    await sandbox.exec.start("echo", args=("a", "b"), env=os.environ)
    async with Sandbox.create(envs=os.environ, image=Image.base()) as other, Snapshots() as snapshots:
        snapshot = await snapshots.create("name", manifest)
        await other.exec.run(snapshot["name"])


async def what_was_put_into_a_variable_is_taken(oc: OpenComputer) -> None:
    source = {"repo": "owner/name", "ref": "main"}
    message = {"text": "hello"}
    session = await oc.sessions.create(agent="parrot", input=message, sources=[source])
    await session.steer_envelope(message)
    async for event in session.events():
        match event:
            case AgentMessage():
                print(event.text)
            case TurnCompleted():
                break
            case SessionEvent():
                print(event.body["text"].upper())
