"""Which durable agent or session a command is about, and values as options give them."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

import typer

from opencomputer.cli.failures import CommandError

if TYPE_CHECKING:
    from opencomputer.cli.output import Output
    from opencomputer.sdk.durable.agent_records import DurableAgent
    from opencomputer.sdk.durable.client import OpenComputer


_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


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


async def agent_id_of(durable: OpenComputer, reference: str) -> str:
    """The id of the agent with this name; an id is used as it is."""
    return reference if reference.startswith("agt_") else (await agent_of(durable, reference)).id


def only_one(ids: Sequence[str], named: str, kind: str) -> str:
    """The id of the one thing that has a name."""
    if len(ids) != 1:
        many = f"{len(ids)} of the {kind} have" if ids else f"none of the {kind} has"
        raise CommandError(f"{many} the name {named!r}; name it by its id")
    return ids[0]


def is_sandbox(named: str) -> bool:
    """Whether this is the id of a sandbox, or of a durable session with one."""
    return named.startswith(("sb-", "ses_")) or _UUID.fullmatch(named) is not None


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
    """Ask before what cannot be undone. Only yes is a yes, and nobody there to ask is a no."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise CommandError(f"{question} Pass --yes: there is nobody to ask.")
    answer = str(
        typer.prompt(f"{question} [y/N]", default="", show_default=False, prompt_suffix=" ", err=True)
    )
    if answer.strip().lower() not in ("y", "yes"):
        raise CommandError("nothing was done")
