"""Skills: folders of text that an agent can read, checked before anything keeps them (section 3.6)."""

from __future__ import annotations

import hashlib
import json
import stat
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import yaml

from opencomputer.server.domain.sessions.errors import InvalidSkills

MAX_FILES = 64
MAX_BYTES = 256 << 10
MAX_FRONT_MATTER = 16 << 10
"""In characters: reading YAML takes its time."""

_MAX_SEGMENT_BYTES = 255
_MAX_PATH_BYTES = 1024
_MAX_NAME = 128
_DESCRIPTION = "SKILL.md"
_WRAPPER = "skills"
_FENCE = "---"


@dataclass(frozen=True)
class SkillText:
    """One file of a skill; `path` begins with the skill's folder."""

    path: str
    content: str
    executable: bool = False

    @property
    def mode(self) -> int:
        return 0o755 if self.executable else 0o644

    @property
    def size(self) -> int:
        return len(self.content.encode())


@dataclass(frozen=True)
class Skill:
    name: str
    description: str | None
    files: Sequence[SkillText]


@dataclass(frozen=True)
class SkillBundle:
    """All skills of a revision. `files` are in the order of their paths."""

    digest: str
    files: Sequence[SkillText]

    @property
    def skills(self) -> Sequence[Skill]:
        return skills_of(self.files)


def is_ignored(path: str) -> bool:
    """What packing on a Mac leaves in archives, and nobody means to be part of a skill."""
    segments = path.split("/")
    return segments[0] == "__MACOSX" or segments[-1] == ".DS_Store"


def is_executable(mode: int) -> bool:
    return mode & (stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH) != 0


def mode_of(given: int | str | None, path: str) -> int:
    """A mode as a client gave it: a number, or octal digits as text."""
    if given is None:
        return 0o644
    if isinstance(given, int):
        return given
    try:
        return int(given.removeprefix("0o"), 8)
    except ValueError:
        raise InvalidSkills(f"{path}: mode must be a number or octal digits", field="skills") from None


def check_count(count: int) -> None:
    if count > MAX_FILES:
        raise InvalidSkills(f"skills can have at most {MAX_FILES} files, these have {count}", field="skills")


def check_size(size: int) -> None:
    if size > MAX_BYTES:
        raise InvalidSkills(f"skills can have at most {MAX_BYTES} bytes in all", field="skills")


def check_path(path: str) -> str:
    """A path that means the same file wherever skills are unpacked. Raises InvalidSkills."""
    shown = json.dumps(path[:200])
    if not path or path.startswith("/") or "\\" in path:
        raise InvalidSkills(f"the path {shown} must be relative, with / between its parts", field="skills")
    if any(ord(character) < 0x20 or ord(character) == 0x7F for character in path):
        raise InvalidSkills(f"the path {shown} has control characters", field="skills")
    segments = path.split("/")
    if any(segment in ("", ".", "..") for segment in segments):
        raise InvalidSkills(f"the path {shown} must not have empty parts, . or ..", field="skills")
    try:
        sizes = [len(segment.encode()) for segment in segments]
    except UnicodeEncodeError:
        raise InvalidSkills(f"the path {shown} is not valid Unicode text", field="skills") from None
    if max(sizes) > _MAX_SEGMENT_BYTES or len(path.encode()) > _MAX_PATH_BYTES:
        raise InvalidSkills(f"the path {shown} is too long", field="skills")
    return path


def decoded(path: str, content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise InvalidSkills(f"{path}: files of skills must be UTF-8 text", field="skills") from None


def bundle_of(files: Iterable[SkillText]) -> SkillBundle | None:
    """Skills as they are kept; None when there are none. Raises InvalidSkills saying what is wrong."""
    kept = [each for each in files if not is_ignored(check_path(each.path))]
    if not kept:
        return None
    check_count(len(kept))
    check_size(sum(_size(each) for each in kept))
    kept = sorted(_unwrapped(kept), key=lambda each: each.path)
    _check_distinct([each.path for each in kept])
    skills_of(kept)
    return SkillBundle(_digest(kept), tuple(kept))


def skills_of(files: Sequence[SkillText]) -> Sequence[Skill]:
    """The skills that these files are, by folder. Raises InvalidSkills."""
    folders: dict[str, list[SkillText]] = {}
    for each in files:
        folder, slash, _ = each.path.partition("/")
        if not slash:
            raise InvalidSkills(f"{each.path}: every file must be in the folder of a skill", field="skills")
        folders.setdefault(folder, []).append(each)
    return [_skill(folder, members) for folder, members in folders.items()]


def _size(file: SkillText) -> int:
    if "\0" in file.content:
        raise InvalidSkills(f"{file.path}: files of skills must be text, without NUL", field="skills")
    try:
        return file.size
    except UnicodeEncodeError:
        raise InvalidSkills(f"{file.path}: is not valid Unicode text", field="skills") from None


def _unwrapped(files: Sequence[SkillText]) -> Sequence[SkillText]:
    """Without the one folder `skills/` around everything, unless that is a skill itself."""
    wrapper = f"{_WRAPPER}/"
    if any(not each.path.startswith(wrapper) or each.path == wrapper + _DESCRIPTION for each in files):
        return files
    return [SkillText(each.path.removeprefix(wrapper), each.content, each.executable) for each in files]


def _check_distinct(paths: Sequence[str]) -> None:
    seen = set(paths)
    if len(seen) < len(paths):
        twice = next(path for path in paths if paths.count(path) > 1)
        raise InvalidSkills(f"{twice}: is there twice", field="skills")
    for path in paths:
        segments = path.split("/")
        for end in range(1, len(segments)):
            if "/".join(segments[:end]) in seen:
                raise InvalidSkills(
                    f"{'/'.join(segments[:end])}: is both a file and a folder", field="skills"
                )


def _skill(folder: str, files: Sequence[SkillText]) -> Skill:
    path = f"{folder}/{_DESCRIPTION}"
    text = next((each.content for each in files if each.path == path), None)
    if text is None:
        raise InvalidSkills(f"the skill {folder} has no {_DESCRIPTION}", field="skills")
    members = _front_matter(path, text)
    name = _member(members, "name", path) or folder
    if len(name) > _MAX_NAME:
        raise InvalidSkills(f"{path}: name must have at most {_MAX_NAME} characters", field="skills")
    return Skill(name, _member(members, "description", path), files)


def _front_matter(path: str, text: str) -> Mapping[str, Any]:
    """What stands between the fences at the beginning; nothing where there are none."""
    lines = text.removeprefix("\ufeff").splitlines()
    if not lines or lines[0].rstrip() != _FENCE:
        return {}
    ends = [number for number, line in enumerate(lines) if number and line.rstrip() == _FENCE]
    if not ends:
        raise InvalidSkills(f"{path}: the front matter does not end with {_FENCE}", field="skills")
    front = "\n".join(lines[1 : ends[0]])
    if len(front) > MAX_FRONT_MATTER:
        raise InvalidSkills(f"{path}: the front matter is longer than {MAX_FRONT_MATTER}", field="skills")
    try:
        parsed: object = yaml.safe_load(front)
    except (yaml.YAMLError, ValueError, RecursionError, TypeError) as error:
        raise InvalidSkills(f"{path}: the front matter is not valid YAML", field="skills") from error
    if parsed is None:
        return {}
    if not isinstance(parsed, dict):
        raise InvalidSkills(f"{path}: the front matter must have name and description", field="skills")
    return cast("Mapping[str, Any]", parsed)


def _member(members: Mapping[str, Any], name: str, path: str) -> str | None:
    value = members.get(name)
    if value is None:
        return None
    if not isinstance(value, str):
        raise InvalidSkills(f"{path}: {name} must be text; put it in quotes", field="skills")
    return value.strip() or None


def _digest(files: Sequence[SkillText]) -> str:
    manifest = [[each.path, each.mode, hashlib.sha256(each.content.encode()).hexdigest()] for each in files]
    canonical = json.dumps(manifest, separators=(",", ":"))
    return f"sha256:{hashlib.sha256(canonical.encode()).hexdigest()}"
