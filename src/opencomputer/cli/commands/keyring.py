"""`oc keyring …`: the keys with which a node on this machine encrypts secrets."""

from __future__ import annotations

import os
from pathlib import Path

import typer

from opencomputer.cli.failures import CommandError
from opencomputer.cli.local_server import local_server
from opencomputer.cli.session import session_of

_DATA = typer.Option(None, help="The node's data folder.", show_default=False)


def rotate(context: typer.Context, data: Path | None = _DATA) -> None:
    """Make a new key and encrypt every secret with it. The node may be running."""
    import asyncio

    with local_server():
        from opencomputer.server.contracts.secrets import KeyringDamaged
        from opencomputer.server.contracts.stores import DatabaseUnusable
        from opencomputer.server.main import rotate_keyring

        try:
            rotated = asyncio.run(rotate_keyring(_folder(data)))
        except (DatabaseUnusable, KeyringDamaged) as error:
            raise CommandError(str(error)) from error
    session = session_of(context)
    value = {
        "version": rotated.version,
        "encrypted": rotated.encrypted,
        "unreadable": rotated.unreadable,
        "dropped": list(rotated.dropped),
    }
    session.output.success(value, f"key {rotated.version} encrypts from now on; secrets: {rotated.encrypted}")
    if rotated.unreadable:
        session.output.note(f"Secrets that no key opens: {rotated.unreadable}. Set them anew.")


def forget(
    context: typer.Context,
    data: Path | None = _DATA,
    yes: bool = typer.Option(False, "--yes", help="Do not ask."),
) -> None:
    """Remove the secrets whose keys are lost, and make a new key if there is none."""
    import asyncio

    if not yes:
        typer.confirm("Remove every secret that no key opens?", abort=True, err=True)
    with local_server():
        from opencomputer.server.contracts.secrets import KeyringDamaged
        from opencomputer.server.contracts.stores import DatabaseUnusable
        from opencomputer.server.main import forget_secrets

        try:
            removed = asyncio.run(forget_secrets(_folder(data)))
        except (DatabaseUnusable, KeyringDamaged) as error:
            raise CommandError(str(error)) from error
    session_of(context).output.success({"removed": removed}, f"secrets removed: {removed}")


def add_to(app: typer.Typer) -> None:
    """Add the group."""
    group = typer.Typer(
        help="Keys that secrets are encrypted with, of a node on this machine: rotate, forget."
    )
    group.command("rotate")(rotate)
    group.command("forget")(forget)
    app.add_typer(group, name="keyring")


def _folder(data: Path | None) -> Path:
    from opencomputer.server.settings import Overrides, SettingsError, load_settings

    try:
        folder = load_settings(os.environ, Overrides(data=data)).data
    except SettingsError as error:
        raise CommandError(str(error)) from error
    if not folder.is_dir():
        raise CommandError(f"{folder} is no node's data folder; name it with --data")
    return folder
