"""The entry point of `oc`: arguments in, exit code out."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import ModuleType
from typing import NoReturn, cast

import typer

from opencomputer.cli import arguments
from opencomputer.cli.commands import (
    agent,
    audit,
    checkpoint,
    completion,
    config,
    copy,
    credential,
    diff,
    doctor,
    durable_session,
    exec,
    fork,
    image,
    keyring,
    keys,
    orgs,
    patch,
    power,
    preview,
    sandbox,
    scale,
    secret,
    secret_store,
    serve,
    shell,
    snapshot,
    template,
)
from opencomputer.cli.config import Server
from opencomputer.cli.failures import failure_of
from opencomputer.cli.output import Output
from opencomputer.cli.session import Session

_COMMANDS = (
    sandbox,
    power,
    scale,
    exec,
    shell,
    copy,
    fork,
    diff,
    audit,
    checkpoint,
    patch,
    preview,
    agent,
    durable_session,
    credential,
    keys,
    secret_store,
    secret,
    image,
    snapshot,
    orgs,
    keyring,
    template,
    serve,
    doctor,
    config,
    completion,
)


def main() -> NoReturn:
    """Run `oc` with the process's arguments and exit."""
    # httpx loads the parts of a command line of its own, where they are installed, and they take longer than
    # all else. It does without them when they cannot be imported.
    sys.modules["httpx._main"] = cast(ModuleType, None)
    sys.exit(run(sys.argv[1:]))


def run(given: Sequence[str]) -> int:
    """Run one command and return its exit code. What went wrong has been printed."""
    try:
        code: object = application()(
            arguments.prepared(given), prog_name=completion.PROGRAM, standalone_mode=False
        )
    except (Exception, KeyboardInterrupt) as error:
        failure = failure_of(error)
        if failure is None:
            raise
        Output(json=arguments.wants_json(given)).failure(failure)
        return failure.exit_code
    return code if isinstance(code, int) else 0


def application() -> typer.Typer:
    """All commands. Each one's file adds what it has."""
    app = typer.Typer(
        name=completion.PROGRAM,
        help="Isolated Linux machines for AI agents and untrusted programs.",
        context_settings={"help_option_names": ["-h", "--help"]},
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        add_completion=completion.is_completing(),
    )
    app.callback()(_global_options)
    for commands in _COMMANDS:
        commands.add_to(app)
    return app


def _show_version(wanted: bool) -> None:
    if wanted:
        from opencomputer.sdk.version import installed_version

        print(f"{completion.PROGRAM} version {installed_version()}")
        raise typer.Exit


def _global_options(
    context: typer.Context,
    json: bool = typer.Option(False, "--json", help="Print results as JSON."),
    no_color: bool = typer.Option(False, "--no-color", help="Print without colours."),
    api_key: str = typer.Option("", "--api-key", help="The API key to use.", show_default=False),
    api_url: str = typer.Option("", "--api-url", help="The server to talk to.", show_default=False),
    sessions_api_url: str = typer.Option(
        "", "--sessions-api-url", help="Where its durable sessions are, if elsewhere.", show_default=False
    ),
    version: bool = typer.Option(
        False, "--version", help="Print the version.", callback=_show_version, is_eager=True
    ),
) -> None:
    context.obj = Session(Output(json=json, colour=not no_color), Server(api_url, api_key, sessions_api_url))
