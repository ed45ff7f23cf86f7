"""What a shell may put in the place of an argument: the sandboxes that there are."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typer.core import TyperCommand, TyperGroup

_SANDBOX = "SANDBOX"
_PATIENCE_SECONDS = 2.0


@dataclass(frozen=True)
class Suggestion:
    """One, as the library hands it to the shell."""

    value: str
    help: str
    type: str = "plain"


def suggest_sandboxes(commands: Iterable[TyperCommand | TyperGroup]) -> None:
    """Have the arguments of these commands that name a sandbox suggest those that there are."""
    for command in commands:
        for parameter in command.params:
            if parameter.metavar == _SANDBOX:
                # The library itself takes such a function only where the argument is declared.
                parameter.shell_complete = _complete  # type: ignore[method-assign, assignment]
        suggest_sandboxes(getattr(command, "commands", {}).values())


def _complete(_context: object, incomplete: str) -> list[Suggestion]:
    """The ids that begin so. Where the server does not tell at once there are none."""
    try:
        found = asyncio.run(_sandboxes())
    except Exception:
        # A shell that waits for a suggestion has no place for an error.
        return []
    return [each for each in found if each.value.startswith(incomplete)]


async def _sandboxes() -> list[Suggestion]:
    from opencomputer.cli.config import Server, resolve
    from opencomputer.sdk.answers import json_objects, text
    from opencomputer.sdk.control_plane import ControlPlane, get
    from opencomputer.sdk.endpoint import Endpoint, api_base

    server = resolve(Server("", ""), os.environ)
    async with (
        asyncio.timeout(_PATIENCE_SECONDS),
        ControlPlane(Endpoint(api_base(server.api_url), server.api_key)) as plane,
    ):
        listed = json_objects(await plane.json(get("/sandboxes")))
    return [
        Suggestion(text(each, "sandboxID"), f"{text(each, 'templateID')}, {text(each, 'status')}")
        for each in listed
    ]
