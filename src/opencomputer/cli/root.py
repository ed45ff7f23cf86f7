"""`oc` itself: its global options, and its commands, each loaded when it is needed."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping, Sequence
from contextlib import AbstractContextManager
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, cast

import typer
import typer.core
import typer.main

from opencomputer.cli import arguments
from opencomputer.cli.catalogue import SECTIONS, Command
from opencomputer.cli.config import Server
from opencomputer.cli.output import Output
from opencomputer.cli.session import Session

if TYPE_CHECKING:
    from typer.core import TyperCommand, TyperGroup

    Loaded = TyperCommand | TyperGroup


def application() -> typer.Typer:
    """All commands. Those below a name are loaded when somebody asks for it."""
    app = typer.Typer(
        name=arguments.PROGRAM,
        cls=_Commands,
        help="Isolated Linux machines for AI agents and untrusted programs.",
        context_settings={"help_option_names": ["-h", "--help"]},
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        add_completion=arguments.is_completing(),
    )
    app.callback()(_global_options)
    return app


def loaded(module: str) -> dict[str, Loaded]:
    """The commands directly below `oc` that a module of `commands` adds, by name."""
    app = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False)
    import_module(f"opencomputer.cli.commands.{module}").add_to(app)
    commands = cast("dict[str, Loaded]", typer.main.get_group(app).commands)
    if arguments.is_completing():
        from opencomputer.cli.completing import suggest_sandboxes

        suggest_sandboxes(commands.values())
    return commands


class _Formatter(Protocol):
    """What help is written with."""

    def section(self, name: str) -> AbstractContextManager[None]: ...

    def write_dl(self, rows: Sequence[tuple[str, str]]) -> None: ...


class _Commands(typer.core.TyperGroup):
    """The group of all commands."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = cast(Any, _LoadedWhenNeeded())

    def format_commands(self, ctx: object, formatter: _Formatter) -> None:
        """Write the list of commands, without loading any."""
        for section in SECTIONS:
            rows = [(each.name, each.summary) for each in section.commands if not each.hidden]
            with formatter.section(section.title):
                formatter.write_dl(rows)


class _LoadedWhenNeeded(MutableMapping[str, "Loaded"]):
    """The commands by name. Looking one up loads its module; listing the names loads nothing."""

    def __init__(self) -> None:
        self._known: dict[str, Command] = {
            each.name: each for section in SECTIONS for each in section.commands
        }
        self._loaded: dict[str, Loaded] = {}

    def __getitem__(self, name: str) -> Loaded:
        if name not in self._loaded:
            self._loaded.update(loaded(self._known[name].module))
        return self._loaded[name]

    def __setitem__(self, name: str, command: Loaded) -> None:
        self._loaded[name] = command

    def __delitem__(self, name: str) -> None:
        del self._known[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)


def _show_version(wanted: bool) -> None:
    # Only where something stands before it that is no global option; else nothing of all this was loaded.
    if wanted:
        from opencomputer.cli.main import show_version

        show_version(as_json=False)
        raise typer.Exit


def _global_options(
    context: typer.Context,
    json: bool = typer.Option(False, "--json", help="Print results as JSON."),
    quiet: bool = typer.Option(
        False, "--quiet", "-q", help="Print nothing but results: of lists and changes only the ids."
    ),
    no_color: bool = typer.Option(False, "--no-color", help="Print without colours."),
    api_key: str = typer.Option("", "--api-key", help="The API key to use.", show_default=False),
    api_url: str = typer.Option("", "--api-url", help="The server to talk to.", show_default=False),
    sessions_api_url: str = typer.Option(
        "", "--sessions-api-url", help="Where its durable sessions are, if elsewhere.", show_default=False
    ),
    profile: str = typer.Option(
        "", "--profile", metavar="NAME", help="Which of several saved servers.", show_default=False
    ),
    version: bool = typer.Option(
        False, "--version", help="Print the version.", callback=_show_version, is_eager=True
    ),
) -> None:
    output = Output(json=json, colour=not no_color, quiet=quiet)
    context.obj = Session(output, Server(api_url, api_key, sessions_api_url, profile))
