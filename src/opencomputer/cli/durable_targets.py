"""Which durable agent or session a command is about, and values as options give them."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, cast

import typer

from opencomputer.cli.failures import CommandError

if TYPE_CHECKING:
    from opencomputer.cli.output import Output
    from opencomputer.sdk.durable.agent_records import DurableAgent
    from opencomputer.sdk.durable.client import OpenComputer


def agent_reference(*given: str) -> str:
    """The first that is not empty, else what `agent.toml` in this folder names. Ids and names alike."""
    from opencomputer.sdk.durable.projects import read_reference

    found = next((each for each in given if each), None) or read_reference(Path.cwd())
    if not found:
        raise CommandError("which agent? Name it, pass --agent, or go to a folder with an agent.toml")
    return found


async def agent_of(durable: OpenComputer, reference: str) -> DurableAgent:
    """The agent with this id or name."""
    try:
        return await durable.agents.named(reference)
    except LookupError as error:
        raise CommandError(str(error)) from error


def numbers(text: str, option: str) -> dict[str, int] | None:
    """The whole numbers of a JSON object; None for nothing."""
    if not text:
        return None
    try:
        value: object = json.loads(text)
    except ValueError as error:
        raise CommandError(f'{option} takes a JSON object such as {{"turns": 5}}') from error
    if not isinstance(value, dict):
        raise CommandError(f'{option} takes a JSON object such as {{"turns": 5}}')
    return cast("dict[str, int]", value)


def content(given: str) -> str:
    """The text itself, or what standard input holds for "-"."""
    return sys.stdin.read() if given == "-" else given


def file_text(path: str) -> str:
    """What a file holds."""
    try:
        return Path(path).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"{path} cannot be read: {error}") from error


def confirm(question: str, output: Output, *, yes: bool) -> None:
    """Ask before what cannot be undone. Nobody there to ask is a no."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise CommandError(f"{question} Pass --yes: there is nobody to ask.")
    if not typer.confirm(question, err=True):
        raise CommandError("nothing was done")
