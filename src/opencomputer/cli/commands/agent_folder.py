"""`oc agent init` and `build`: a folder from which an agent can be deployed."""

from __future__ import annotations

import json
from pathlib import Path

import typer

from opencomputer.cli.failures import CommandError
from opencomputer.cli.options import optional
from opencomputer.cli.session import session_of
from opencomputer.cli.text import harmless

_MODEL = "anthropic/claude-sonnet-5"
_MANIFEST = """\
name = {name}
model = {model}

[runtime]
family = {runtime}
"""
_PROMPT = """\
You work in a Linux machine with a shell. Do what you are asked, check that it works, and say what you did.
"""
_SKILL = """\
---
name: example
description: When to use this skill, in one sentence.
---
What to do then. Files beside this one can be read by the agent.
"""


def init(
    context: typer.Context,
    directory: str = typer.Argument(".", metavar="[DIRECTORY]", help="Where it is made."),
    name: str = typer.Option("", "--name", help="What the agent is called.", show_default=False),
    model: str = typer.Option(_MODEL, "--model", metavar="PROVIDER/MODEL", help="The model it uses."),
    runtime: str = typer.Option("claude", "--runtime", help="What runs it."),
) -> None:
    """Make a folder that `oc agent deploy` understands. What is there already stays."""
    session = session_of(context)
    folder = Path(directory)
    manifest = {"name": name or folder.resolve().name, "model": model, "runtime": runtime}
    contents = {
        "agent.toml": _MANIFEST.format(**{key: json.dumps(value) for key, value in manifest.items()}),
        "prompt.md": _PROMPT,
        "skills/example/SKILL.md": _SKILL,
    }
    if runtime != "claude":
        del contents["skills/example/SKILL.md"]
    made: list[str] = []
    for path, content in contents.items():
        file = folder / path
        if file.exists():
            session.output.note(f"{file} is there already")
            continue
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)
        made.append(path)
    value = {"directory": str(folder), "created": made}
    session.output.result(value, "\n".join(harmless(folder / path) for path in made) or "Nothing to do.")


def build(
    context: typer.Context,
    directory: str = typer.Option(".", "--dir", metavar="DIRECTORY", help="The agent's folder."),
    target: str = typer.Option("cloudflare", "--target", help="What it is built for."),
    output: str = optional("--output", "Where the bundle of a Flue agent goes.", "DIRECTORY"),
    check_only: bool = typer.Option(False, "--check-only", help="Only look whether it can be deployed."),
) -> None:
    """Look whether a folder can be deployed. Nothing is asked of a server.

    What runs on claude or codex is deployed as it is. Flue agents are built by the server, from a repository
    that they are linked to.
    """
    from opencomputer.sdk.durable.projects import read_project

    if target != "cloudflare":
        raise CommandError(f"{target} is no target; there is cloudflare")
    project = read_project(directory)
    if project.runtime == "flue" and not check_only:
        raise CommandError(
            "Flue agents are not built here: the server builds a repository that `oc agent link` has named"
        )
    if output:
        raise CommandError(
            "--output is for Flue agents: this folder is deployed as it is, by `oc agent deploy`"
        )
    value = {
        "name": project.name,
        "model": project.model,
        "runtime": project.runtime or "claude",
        "skill_files": len(project.skills),
        "schedules": len(project.schedules or ()),
        "deployable": True,
    }
    session = session_of(context)
    session.output.success(value, f"{project.name} can be deployed: {len(project.skills)} files of skills")


def add_commands(group: typer.Typer) -> None:
    """Add it to the group."""
    group.command("init")(init)
    group.command("build")(build)
