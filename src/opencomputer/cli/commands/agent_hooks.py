"""`oc agent hooks` and `hook …`: URLs that start sessions of an agent."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from opencomputer.cli import durable_targets as targets
from opencomputer.cli import text
from opencomputer.cli.commands.durable_agent import AGENT
from opencomputer.cli.options import YES, named, optional
from opencomputer.cli.session import session_of

if TYPE_CHECKING:
    from opencomputer.sdk.durable.client import OpenComputer
    from opencomputer.sdk.durable.records import Page
    from opencomputer.sdk.durable.starter_records import Hook, NewHook

_HOOK = named("HOOK", "Its id or name.")
_PREFIX = "hk_"
_HEADERS = ("ID", "NAME", "STATUS", "LAST4", "EXPIRES", "CREATED")


def list_hooks(
    context: typer.Context,
    agent: str = AGENT,
    include_revoked: bool = typer.Option(False, "--include-revoked", help="Those that work no more, too."),
    cursor: str = optional("--cursor", "Where an earlier list ended."),
    limit: int = typer.Option(50, "--limit", min=1, max=200, help="At most so many."),
) -> None:
    """List an agent's hooks."""
    session = session_of(context)
    reference = targets.agent_reference(agent)

    async def work(durable: OpenComputer) -> Page[Hook]:
        owner = await targets.agent_id_of(durable, reference)
        return await durable.agents.hooks.list(
            owner, include_revoked=include_revoked or None, limit=limit, cursor=cursor or None
        )

    page = session.run_durable(work)
    rows = [
        [
            each.id,
            each.name,
            each.status,
            each.secret_last4 or "-",
            each.expires_at or "never",
            each.created_at,
        ]
        for each in page
    ]
    session.output.table([each.raw for each in page], _HEADERS, rows, "No hooks.")
    if page.next_cursor and not session.output.json:
        session.output.note(f"There are more: --cursor {page.next_cursor}")


def create(
    context: typer.Context,
    name: str = named("NAME", "What it is called."),
    agent: str = AGENT,
    expires_at: str = optional("--expires-at", "Until when it works.", "RFC3339"),
) -> None:
    """Make a URL that starts sessions. Whoever has it can; it is shown this once."""
    session = session_of(context)
    reference = targets.agent_reference(agent)

    async def work(durable: OpenComputer) -> NewHook:
        owner = await targets.agent_id_of(durable, reference)
        return await durable.agents.hooks.create(owner, name, expires_at=expires_at or None)

    made, url = session.run_durable(work)
    shown = f"{session.output.done(f'{made.id}  {made.name}')}\n{text.harmless(url)}"
    session.output.identified({"hook": made.raw, "hook_url": url}, [url], shown)
    session.output.note("The URL is not shown again.")


def get(context: typer.Context, hook: str = _HOOK, agent: str = AGENT) -> None:
    """Show a hook, without its URL."""
    session = session_of(context)
    reference = targets.agent_reference(agent)

    async def work(durable: OpenComputer) -> Hook:
        owner = await targets.agent_id_of(durable, reference)
        return await durable.agents.hooks.get(owner, await _id_of(durable, owner, hook))

    found = session.run_durable(work)
    pairs = [
        *(("ID", found.id), ("Name", found.name), ("Status", found.status)),
        *(("Last four", found.secret_last4 or "-"), ("Expires", found.expires_at or "never")),
        ("Created", found.created_at),
    ]
    if found.revoked_reason:
        pairs.append(("Revoked", found.revoked_reason))
    session.output.result(found.raw, text.details(pairs))


def revoke(context: typer.Context, hook: str = _HOOK, agent: str = AGENT, yes: bool = YES) -> None:
    """Take a hook back. Its URL starts nothing any more; sessions that it started go on."""
    session = session_of(context)
    reference = targets.agent_reference(agent)
    targets.confirm(f"Revoke the hook {hook}?", session.output, yes=yes)

    async def work(durable: OpenComputer) -> str:
        owner = await targets.agent_id_of(durable, reference)
        hook_id = await _id_of(durable, owner, hook)
        await durable.agents.hooks.delete(owner, hook_id)
        return hook_id

    hook_id = session.run_durable(work)
    session.output.success({"id": hook_id, "revoked": True}, f"{hook_id} revoked")


def add_commands(group: typer.Typer) -> None:
    """Add these to the group."""
    group.command("hooks")(list_hooks)
    hook = typer.Typer(help="URLs that start sessions: create, get, revoke; `oc agent hooks` lists them.")
    hook.command("create")(create)
    hook.command("list", hidden=True)(list_hooks)
    hook.command("get")(get)
    hook.command("revoke")(revoke)
    group.add_typer(hook, name="hook")


async def _id_of(durable: OpenComputer, owner: str, named: str) -> str:
    if named.startswith(_PREFIX):
        return named
    found = [each.id async for each in await durable.agents.hooks.list(owner) if each.name == named]
    return targets.only_one(found, named, "hooks")
