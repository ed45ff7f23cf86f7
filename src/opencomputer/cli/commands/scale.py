"""`oc sandbox scale`, `autoscale`, `lock`, `unlock` and `lock-status`; `oc scale` for short."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from opencomputer.cli.session import session_of

if TYPE_CHECKING:
    from opencomputer.sdk.answers import JsonObject

_ID = typer.Argument(..., metavar="SANDBOX", help="The sandbox's id.", show_default=False)


def scale(
    context: typer.Context,
    sandbox: str = _ID,
    memory_mb: int = typer.Argument(
        ..., metavar="MEMORY_MB", min=1, help="1024, 4096, 8192 or 16384.", show_default=False
    ),
) -> None:
    """Give a running sandbox another size. This switches autoscaling off."""
    from opencomputer.sdk import scaling
    from opencomputer.sdk.answers import flag, json_object

    session = session_of(context)
    made = session.run_on(sandbox, lambda link: link.plane.json(scaling.scale(link, memory_mb)))
    answer = json_object(made)
    off = "; autoscaling is off now" if flag(answer, "autoscaleDisabled") else ""
    size = f"{answer.get('memoryMB')} MB and {answer.get('cpuPercent')}% CPU"
    session.output.success(answer, f"{sandbox} has {size}{off}")


def autoscale(
    context: typer.Context,
    sandbox: str = _ID,
    on: bool = typer.Option(False, "--on", help="Let its size follow its use of memory."),
    off: bool = typer.Option(False, "--off", help="Keep its size."),
    least: int | None = typer.Option(
        None, "--min", min=1, help="The smallest size, in MB.", show_default=False
    ),
    most: int | None = typer.Option(
        None, "--max", min=1, help="The largest size, in MB.", show_default=False
    ),
) -> None:
    """Show or change whether a sandbox's size follows its use of memory."""
    from opencomputer.sdk import scaling
    from opencomputer.sdk.answers import json_object
    from opencomputer.sdk.control_plane import get

    if on and off:
        raise typer.BadParameter("--on and --off exclude each other")
    if on and (least is None or most is None):
        raise typer.BadParameter("--on needs --min and --max")
    if not (on or off) and (least is not None or most is not None):
        raise typer.BadParameter("--min and --max need --on or --off")
    session = session_of(context)
    if not (on or off):
        found = session.run_on(sandbox, lambda link: link.plane.json(get(link.path("autoscale"))))
        session.output.result(found, f"{sandbox} {_state(json_object(found))}")
        return
    changed = session.run_on(
        sandbox, lambda link: link.plane.json(scaling.set_autoscale(link, on, least, most))
    )
    session.output.success(changed, f"{sandbox} {_state(json_object(changed))}")


def _state(answer: JsonObject) -> str:
    bounds = f"between {answer.get('minMemoryMB')} and {answer.get('maxMemoryMB')} MB"
    return f"autoscales {bounds}" if answer.get("enabled") else f"does not autoscale (would, {bounds})"


def lock(context: typer.Context, sandbox: str = _ID) -> None:
    """Keep a sandbox's size as it is. This switches autoscaling off."""
    _set_lock(context, sandbox, locked=True)


def unlock(context: typer.Context, sandbox: str = _ID) -> None:
    """Let a sandbox's size be changed again. Autoscaling stays off."""
    _set_lock(context, sandbox, locked=False)


def _set_lock(context: typer.Context, sandbox: str, *, locked: bool) -> None:
    from opencomputer.sdk import scaling

    session = session_of(context)
    answer = session.run_on(sandbox, lambda link: link.plane.json(scaling.set_lock(link, locked)))
    session.output.success(answer, f"the size of {sandbox} is {_word(locked)}")


def lock_status(context: typer.Context, sandbox: str = _ID) -> None:
    """Show whether a sandbox's size is locked."""
    from opencomputer.sdk.answers import flag, json_object
    from opencomputer.sdk.control_plane import get

    session = session_of(context)
    answer = json_object(
        session.run_on(sandbox, lambda link: link.plane.json(get(link.path("scaling-lock"))))
    )
    session.output.result(answer, f"the size of {sandbox} is {_word(flag(answer, 'locked'))}")


def _word(locked: bool) -> str:
    return "locked" if locked else "not locked"


def add_to(app: typer.Typer) -> None:
    """Add the short form."""
    app.command("scale")(scale)


def add_to_group(group: typer.Typer) -> None:
    """Add the commands below `oc sandbox`."""
    group.command("scale")(scale)
    group.command("autoscale")(autoscale)
    group.command("lock")(lock)
    group.command("unlock")(unlock)
    group.command("lock-status")(lock_status)
