"""`oc agent …` for hosted agents: agents that the server runs, with their channels and packages."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import typer

from opencomputer.cli import durable_targets as targets
from opencomputer.cli import text
from opencomputer.cli.failures import REFUSED, CommandError
from opencomputer.cli.options import YES, named, optional
from opencomputer.cli.session import Session, session_of

if TYPE_CHECKING:
    from opencomputer.sdk.answers import JsonObject
    from opencomputer.sdk.hosted.client import HostedAgents
    from opencomputer.sdk.hosted.records import HostedAgent, HostedChannel, HostedPackage, Operation

HOSTED = named("AGENT", "A hosted agent's id.")
NO_WAIT = typer.Option(False, "--no-wait", help="Return at once.")
_HEADERS = ("ID", "CORE", "CHANNELS", "PACKAGES", "CREATED")
_CHANNEL_HEADERS = ("NAME", "STATUS", "BOT")
_PACKAGE_HEADERS = ("NAME", "STATUS", "INSTALLED")
_CHANNELS = ("telegram", "slack")


@dataclass(frozen=True)
class NewAgent:
    """What a hosted agent is made of."""

    id: str
    core: str
    model: str = ""
    display_name: str = ""
    secrets: tuple[str, ...] = ()


def create(session: Session, wanted: NewAgent, *, wait: bool) -> None:
    """Make a hosted agent and wait until it is ready."""
    secrets = text.assignments(wanted.secrets, "--secret")

    async def work(hosted: HostedAgents) -> tuple[HostedAgent, Operation | None]:
        from opencomputer.sdk.hosted.operations import operation_in

        made = await hosted.create(
            wanted.id,
            wanted.core,
            secrets=secrets or None,
            model=wanted.model or None,
            display_name=wanted.display_name or None,
            wait=False,
        )
        operation = operation_in({"operation": made.raw.get("operation")})
        return made, operation or (await hosted.get(wanted.id)).current_operation

    made, operation = session.run_hosted(work)
    session.output.note(f"Making {made.id} …")
    if operation is None or not wait:
        _settle(session, made.raw, f"{made.id} is on its way")
        return
    if _waited(session, made.id, operation):
        ready = session.run_hosted(lambda hosted: hosted.get(made.id))
        session.output.success(ready.raw, f"{made.id} is {ready.status or 'ready'}")
        session.output.note(
            f"Next: oc agent connect {made.id} telegram, oc agent chat {made.id}, "
            f"oc agent install {made.id} gbrain, oc shell {made.id}"
        )


def list_agents(context: typer.Context) -> None:
    """List the hosted agents."""
    session = session_of(context)
    found = session.run_hosted(lambda hosted: hosted.list())
    rows = [
        [each.id, each.core or "-", _names(each.channels), _names(each.packages), each.created_at or "-"]
        for each in found
    ]
    session.output.table([each.raw for each in found], _HEADERS, rows, "No hosted agents.")


def get(session: Session, agent: str) -> None:
    """Show a hosted agent."""
    found = session.run_hosted(lambda hosted: hosted.get(agent))
    lines = [text.details(_details(found)), *_conditions(found)]
    session.output.result(found.raw, "\n".join(lines))


def delete(session: Session, agent: str) -> None:
    """Delete a hosted agent."""
    session.run_hosted(lambda hosted: hosted.delete(agent))
    session.output.success({"id": agent, "deleted": True}, f"{agent} deleted")


def connect(
    context: typer.Context,
    agent: str = HOSTED,
    channel: str = named("CHANNEL", "telegram or slack."),
    bot_token: str = optional("--bot-token", "The bot's token; it is asked for if it is left out."),
    app_token: str = optional("--app-token", "For slack: the app's token."),
    signing_secret: str = optional("--signing-secret", "For slack: what its requests are signed with."),
    no_wait: bool = NO_WAIT,
) -> None:
    """Connect a hosted agent to a messaging platform."""
    if channel not in _CHANNELS:
        raise CommandError(f"{channel} is no channel; there are {' and '.join(_CHANNELS)}")
    session = session_of(context)
    _check_entitlement(session, agent, channel)
    given = {"bot_token": bot_token or _asked_token()}
    if channel == "slack":
        given |= {"app_token": app_token, "signing_secret": signing_secret}
    fields = {name: value for name, value in given.items() if value}

    async def work(hosted: HostedAgents) -> tuple[JsonObject, Operation | None]:
        change = await hosted.connect_channel(agent, channel, **fields)
        return change.raw, change.operation

    _changed(session, agent, work, wait=not no_wait, done=f"{agent} is connected to {channel}")


def disconnect(
    context: typer.Context, agent: str = HOSTED, channel: str = named("CHANNEL", "Its name."), yes: bool = YES
) -> None:
    """Disconnect a hosted agent from a messaging platform."""
    session = session_of(context)
    targets.confirm(f"Disconnect {agent} from {channel}?", session.output, yes=yes)
    session.run_hosted(lambda hosted: hosted.disconnect_channel(agent, channel))
    value = {"agent_id": agent, "channel": channel, "disconnected": True}
    session.output.success(value, f"{agent} is not connected to {channel} any more")


def channels(context: typer.Context, agent: str = HOSTED) -> None:
    """List what a hosted agent is connected to."""
    session = session_of(context)
    found = session.run_hosted(lambda hosted: hosted.list_channels(agent))
    rows = [[each.name, each.raw.get("status") or "connected", each.bot_username or "-"] for each in found]
    session.output.table([each.raw for each in found], _CHANNEL_HEADERS, rows, "No channels.")


def install(
    context: typer.Context,
    agent: str = HOSTED,
    package: str = named("PACKAGE", "Such as gbrain."),
    no_wait: bool = NO_WAIT,
) -> None:
    """Give a hosted agent a package. One that is there already stays as it is."""

    async def work(hosted: HostedAgents) -> tuple[JsonObject, Operation | None]:
        change = await hosted.install_package(agent, package)
        return change.raw, change.operation

    _changed(session_of(context), agent, work, wait=not no_wait, done=f"{agent} has {package}")


def uninstall(
    context: typer.Context, agent: str = HOSTED, package: str = named("PACKAGE", "Its name."), yes: bool = YES
) -> None:
    """Take a package from a hosted agent. Its data is kept."""
    session = session_of(context)
    targets.confirm(f"Take {package} from {agent}?", session.output, yes=yes)
    session.run_hosted(lambda hosted: hosted.uninstall_package(agent, package))
    value = {"agent_id": agent, "package": package, "uninstalled": True}
    session.output.success(value, f"{agent} has no {package} any more; its data is kept")


def packages(context: typer.Context, agent: str = HOSTED) -> None:
    """List a hosted agent's packages."""
    session = session_of(context)
    found = session.run_hosted(lambda hosted: hosted.list_packages(agent))
    rows = [[each.name, each.raw.get("status") or "installed", each.installed_at or "-"] for each in found]
    session.output.table([each.raw for each in found], _PACKAGE_HEADERS, rows, "No packages.")


def add_commands(group: typer.Typer) -> None:
    """Add these to the group."""
    group.command("connect")(connect)
    group.command("disconnect")(disconnect)
    group.command("channels")(channels)
    group.command("install")(install)
    group.command("uninstall")(uninstall)
    group.command("packages")(packages)


Change = Callable[["HostedAgents"], Awaitable["tuple[JsonObject, Operation | None]"]]


def _changed(session: Session, agent: str, work: Change, *, wait: bool, done: str) -> None:
    answer, operation = session.run_hosted(work)
    if operation is None:
        session.output.success(answer, done)
    elif not wait:
        _settle(session, answer, f"{agent}: {operation.kind or 'it'} goes on")
    elif _waited(session, agent, operation):
        session.output.success(answer, done)


def _settle(session: Session, answer: JsonObject, message: str) -> None:
    session.output.success(answer, message)
    session.output.note(
        f"See how it stands: oc agent get {answer.get('id') or answer.get('agent_id')} --hosted"
    )


def _waited(session: Session, agent: str, operation: Operation) -> bool:
    """Whether it ended well. Where it still goes on, that has been said."""
    from opencomputer.cli import hosted_operations

    try:
        session.run_hosted(lambda hosted: hosted_operations.wait(hosted, agent, operation, session.output))
    except hosted_operations.StillGoingOn:
        value = hosted_operations.in_progress(agent)
        session.output.success(value, f"{agent} is not ready yet. See how it stands: {value['check_with']}")
        return False
    return True


def _check_entitlement(session: Session, agent: str, channel: str) -> None:
    from opencomputer.sdk.errors import NotFoundError, NotSupportedError

    try:
        found = session.run_hosted(lambda hosted: hosted.entitlement(agent, channel))
    except (NotFoundError, NotSupportedError):
        return  # Nothing has to be paid for where nobody can be asked.
    if not found.entitled:
        raise CommandError(
            f"{channel} needs a subscription for {agent}: subscribe in the server's dashboard", REFUSED
        )


def _asked_token() -> str:
    if not sys.stdin.isatty():
        raise CommandError("pass --bot-token: there is nobody to ask for it")
    return str(typer.prompt("Bot token", hide_input=True, err=True)).strip()


def _names(parts: Sequence[HostedChannel] | Sequence[HostedPackage]) -> str:
    return ", ".join(each.name for each in parts) or "-"


def _details(agent: HostedAgent) -> list[tuple[str, object]]:
    operation = agent.current_operation
    return [
        ("ID", agent.id),
        ("Name", agent.display_name or agent.id),
        ("Core", agent.core or "-"),
        ("Model", agent.model or "-"),
        ("Status", agent.status or "unknown"),
        ("Instance", " ".join(filter(None, (agent.instance_id, agent.instance_status))) or "-"),
        ("Operation", f"{operation.kind} {operation.phase}" if operation is not None else "-"),
        ("Channels", _names(agent.channels)),
        ("Packages", _names(agent.packages)),
        ("Created", agent.created_at or "-"),
    ]


def _conditions(agent: HostedAgent) -> list[str]:
    lines = [
        text.harmless(
            f"{each.get('type')}: {each.get('reason') or each.get('status')} {each.get('message') or ''}"
        ).rstrip()
        for each in agent.conditions
        if str(each.get("status")).lower() not in ("true", "satisfied")
    ]
    error = agent.last_error
    if error:
        code = f" ({error['code']})" if error.get("code") else ""
        lines.append(text.harmless(f"Last error: {error.get('phase') or '-'}{code}: {error.get('message')}"))
    return lines
