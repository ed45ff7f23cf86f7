"""`oc hibernate`, `wake`, `reboot` and `power-cycle`, also below `oc sandbox`."""

from __future__ import annotations

import typer

from opencomputer.cli import text
from opencomputer.cli.session import session_of

_ID = typer.Argument(..., metavar="SANDBOX", help="The sandbox's id.", show_default=False)


def hibernate(context: typer.Context, sandbox: str = _ID) -> None:
    """Put a sandbox to sleep, memory and files included. Using it wakes it."""
    from opencomputer.sdk import power
    from opencomputer.sdk.answers import json_object, whole

    session = session_of(context)
    answer = json_object(session.run_on(sandbox, lambda link: link.plane.json(power.hibernate(link))))
    size = whole(answer, "sizeBytes")
    session.output.success(answer, f"{sandbox} hibernated" + (f", {text.size(size)}" if size else ""))


def wake(
    context: typer.Context,
    sandbox: str = _ID,
    timeout: int | None = typer.Option(
        None, min=0, help="Idle seconds from now on; 0 for never. Without it they stay.", show_default=False
    ),
) -> None:
    """Wake a sandbox that sleeps."""
    from opencomputer.sdk import power
    from opencomputer.sdk.answers import json_object

    session = session_of(context)
    answer = json_object(session.run_on(sandbox, lambda link: link.plane.json(power.wake(link, timeout))))
    session.output.success(answer, f"{answer.get('sandboxID')} {answer.get('status')}")


def reboot(context: typer.Context, sandbox: str = _ID) -> None:
    """Start a sandbox again. Processes end, files stay."""
    from opencomputer.sdk import power

    session = session_of(context)
    session.run_on(sandbox, lambda link: link.plane.send(power.reboot(link)))
    session.output.success({"sandboxID": sandbox, "rebooted": True}, f"{sandbox} rebooted")


def power_cycle(context: typer.Context, sandbox: str = _ID) -> None:
    """Start a sandbox again on a new machine. Processes end, files stay."""
    from opencomputer.sdk import power

    session = session_of(context)
    session.run_on(sandbox, lambda link: link.plane.send(power.power_cycle(link)))
    session.output.success({"sandboxID": sandbox, "powerCycled": True}, f"{sandbox} power-cycled")


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("hibernate")(hibernate)
    app.command("wake")(wake)
    app.command("reboot")(reboot)
    app.command("power-cycle")(power_cycle)
