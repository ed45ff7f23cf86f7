"""An agent as a folder: `agent.toml`, `prompt.md` and `skills/<name>/SKILL.md` with what belongs to them."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from opencomputer.sdk.answers import JsonObject, is_json_array, is_json_object, text

MANIFEST = "agent.toml"
PROMPT = "prompt.md"
SKILLS = "skills"
_OF_SCHEDULES = frozenset({"name", "cron", "tz", "input", "overlap"})
_MOST_SKILL_FILES = 64
_MOST_SKILL_BYTES = 256 * 1024


class ProjectError(ValueError):
    """The folder does not describe an agent that can be deployed; the message says why."""


@dataclass(frozen=True)
class Project:
    """What a folder says about an agent."""

    name: str
    model: str
    prompt: str
    runtime: str | None = None
    agent_id: str | None = None
    limits: dict[str, int] | None = None
    skills: tuple[JsonObject, ...] = ()
    schedules: tuple[JsonObject, ...] | None = None
    """None where the folder says nothing of schedules, so that those that there are stay."""

    def input(self) -> JsonObject:
        """The input of a deployment: the complete behaviour."""
        described: JsonObject = {"type": "inline", "prompt": self.prompt, "model": self.model}
        if self.skills:
            described["skills"] = list(self.skills)
        if self.schedules is not None:
            described["schedules"] = list(self.schedules)
        return described


def read_project(directory: str | PathLike[str]) -> Project:
    """What the folder describes. Raises ProjectError."""
    folder = Path(directory)
    manifest = _manifest(folder / MANIFEST)
    runtime, agent = _table(manifest, "runtime"), _table(manifest, "agent")
    name, model = text(manifest, "name"), text(manifest, "model")
    for field, value in (("name", name), ("model", model)):
        if not value:
            raise ProjectError(f"{MANIFEST} needs a {field}")
    return Project(
        name=name,
        model=model,
        prompt=_text(folder / PROMPT),
        runtime=text(runtime, "family") or None,
        agent_id=text(agent, "id") or None,
        limits=_limits(_table(manifest, "limits")),
        skills=tuple(_skills(folder / SKILLS)),
        schedules=_schedules(manifest),
    )


def read_reference(directory: str | PathLike[str]) -> str | None:
    """Which agent the folder is about, by id or name; None when it is about none."""
    file = Path(directory) / MANIFEST
    if not file.is_file():
        return None
    manifest = _manifest(file)
    return text(_table(manifest, "agent"), "id") or text(manifest, "name") or None


def _manifest(file: Path) -> JsonObject:
    try:
        return tomllib.loads(_text(file))
    except tomllib.TOMLDecodeError as error:
        raise ProjectError(f"{file.name} is no TOML: {error}") from error


def _table(manifest: JsonObject, name: str) -> JsonObject:
    found = manifest.get(name, {})
    if is_json_object(found):
        return found
    raise ProjectError(f"[{name}] in {MANIFEST} must be a table")


def _limits(given: JsonObject) -> dict[str, int] | None:
    limits = {name: value for name, value in given.items() if isinstance(value, int) and value is not True}
    if len(limits) != len(given):
        raise ProjectError(f"[limits] in {MANIFEST} must hold whole numbers")
    return limits or None


def _schedules(manifest: JsonObject) -> tuple[JsonObject, ...] | None:
    if "schedules" not in manifest:
        return None
    given = manifest["schedules"]
    if not is_json_array(given):
        raise ProjectError(f"schedules in {MANIFEST} are written as [[schedules]]")
    return tuple(_schedule(each) for each in given)


def _schedule(given: object) -> JsonObject:
    if not is_json_object(given) or not all(text(given, name) for name in ("name", "cron", "input")):
        raise ProjectError(f"each of [[schedules]] in {MANIFEST} needs a name, a cron and an input")
    if unknown := sorted(given.keys() - _OF_SCHEDULES):
        raise ProjectError(f"[[schedules]] in {MANIFEST} have no {unknown[0]}")
    return dict(given)


def _text(file: Path) -> str:
    try:
        return file.read_bytes().decode()
    except FileNotFoundError as error:
        raise ProjectError(f"there is no {file.name} in {file.parent}") from error
    except OSError as error:
        raise ProjectError(f"{file} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ProjectError(f"{file} is no UTF-8 text") from error


def _skills(folder: Path) -> Iterator[JsonObject]:
    if not folder.is_dir():
        return
    count = size = 0
    for file in sorted(folder.rglob("*")):
        if any(part.startswith(".") for part in file.relative_to(folder).parts) or file.is_dir():
            continue
        if file.is_symlink() or not file.is_file():
            raise ProjectError(f"{file} is no ordinary file")
        content = _text(file)
        count, size = count + 1, size + len(content.encode())
        if count > _MOST_SKILL_FILES or size > _MOST_SKILL_BYTES:
            raise ProjectError(f"skills may have {_MOST_SKILL_FILES} files and 256 KiB in all")
        mode = "0755" if file.stat().st_mode & 0o111 else "0644"
        yield {"path": file.relative_to(folder).as_posix(), "content": content, "mode": mode}
