"""`oc serve`: a node on this machine."""

from __future__ import annotations

from pathlib import Path

import typer

from opencomputer.cli.failures import CommandError
from opencomputer.cli.local_server import local_server


def serve(
    listen: str | None = typer.Option(None, metavar="HOST:PORT", help="Where to listen.", show_default=False),
    data: Path | None = typer.Option(None, help="The folder for the node's data.", show_default=False),
    templates: Path | None = typer.Option(None, help="The folder of the templates.", show_default=False),
) -> None:
    """Run a node on this machine until it is told to stop."""
    with local_server():
        from opencomputer.server.contracts.network import AuthorityUnusable
        from opencomputer.server.contracts.secrets import KeyringDamaged
        from opencomputer.server.contracts.stores import DatabaseUnusable
        from opencomputer.server.domain.errors import OpenComputerError
        from opencomputer.server.host.runsc_build import RunscMissing
        from opencomputer.server.identity import DataFolderBusy, DataFolderUnfinished
        from opencomputer.server.listeners import AddressInUse
        from opencomputer.server.main import serve as run_node
        from opencomputer.server.settings import SettingsError

        unusable = (DataFolderUnfinished, DatabaseUnusable, KeyringDamaged, AuthorityUnusable)
        try:
            run_node(listen, data, templates)
        except AddressInUse as error:
            raise CommandError(str(error), hint="choose another: oc serve --listen 127.0.0.1:PORT") from error
        except DataFolderBusy as error:
            raise CommandError(str(error), hint="stop that one, or: oc serve --data FOLDER") from error
        except SettingsError as error:
            raise CommandError(str(error), hint="correct that here or in the environment") from error
        except unusable as error:
            raise CommandError(str(error)) from error
        except (RunscMissing, OpenComputerError) as error:
            raise CommandError(str(error), hint="see what this machine lacks: oc doctor") from error


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command("serve")(serve)
