"""Declarative images: what a manifest means, and the hashes by which builds are found again.

See sandbox-wire.md section 13. Everything here is pure; a manifest is untrusted.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, TypeAlias, TypeGuard

from opencomputer.server.domain.errors import InvalidInput
from opencomputer.server.domain.image_fields import (
    Fields,
    absolute_path,
    file_content,
    file_mode,
    package,
    relative_path,
    variable_name,
    whole,
)
from opencomputer.server.domain.limits import TIERS, check_environment

DEFAULT_BASE = "base"
BASE_ALIASES = frozenset({"", "base", "default", "ubuntu"})
DEFAULT_BUILDER_MEMORY_MB = 4096
DEFAULT_RUNTIME_MEMORY_MB = 1024
MAX_STEPS = 200
MAX_CONTENT_BYTES = 32 << 20
MAX_FILES = 20_000
MAX_SCRIPT_BYTES = 96 << 10
"""What one step runs travels as one argument, and systems limit those to 128 KiB."""
_SHOWN_BYTES = 256 << 10
_FORMAT = "1"
"""Part of every key: changed when builds of before must not be used any more."""


@dataclass(frozen=True)
class AptInstall:
    type: ClassVar[str] = "apt_install"
    packages: tuple[str, ...]


@dataclass(frozen=True)
class PipInstall:
    type: ClassVar[str] = "pip_install"
    packages: tuple[str, ...]


@dataclass(frozen=True)
class Run:
    type: ClassVar[str] = "run"
    commands: tuple[str, ...]


@dataclass(frozen=True)
class Env:
    type: ClassVar[str] = "env"
    variables: Mapping[str, str]


@dataclass(frozen=True)
class Workdir:
    type: ClassVar[str] = "workdir"
    path: str


@dataclass(frozen=True)
class ImageFile:
    """`path` is absolute, or relative to the directory it comes with. `mode` None: the default."""

    path: str
    content: bytes
    mode: int | None = None


@dataclass(frozen=True)
class AddFile:
    type: ClassVar[str] = "add_file"
    file: ImageFile


@dataclass(frozen=True)
class AddDirectory:
    type: ClassVar[str] = "add_dir"
    path: str
    files: tuple[ImageFile, ...]


Step: TypeAlias = AptInstall | PipInstall | Run | Env | Workdir | AddFile | AddDirectory
COMMANDS = (AptInstall, PipInstall, Run)
"""Steps that run programs. The others take milliseconds, so that repeating them costs nothing."""


@dataclass(frozen=True)
class ImageFacts:
    """What steps say about the processes of every machine made from them."""

    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    workdir: str | None = None


@dataclass(frozen=True)
class ImageDefinition:
    """A manifest that has been understood.

    `content_hash` is the contract's cache key. `prefix_hashes[k]` stands for the base and the first k steps.
    `manifest` is the manifest as it was sent, as JSON; `shown_manifest` is the one for showing: of large ones
    without the content of files.
    """

    base: str
    steps: tuple[Step, ...]
    content_hash: str
    prefix_hashes: tuple[str, ...]
    builder_memory_mb: int
    runtime_memory_mb: int
    name: str | None
    manifest: str
    shown_manifest: str

    def key(self, template_hash: str) -> str:
        """What a finished build is kept under. A newer template, or more memory, makes another build."""
        return _digest(_FORMAT, template_hash, self.content_hash, str(self.runtime_memory_mb))

    def prefix_keys(self, template_hash: str) -> Sequence[str]:
        """What the files after the first k steps are kept under, for each k from 0 on."""
        return [_digest(_FORMAT, template_hash, prefix) for prefix in self.prefix_hashes]

    def facts(self, count: int | None = None) -> ImageFacts:
        """What the first `count` steps, or all, say."""
        environment: dict[str, str] = {}
        workdir: str | None = None
        for step in self.steps[:count]:
            if isinstance(step, Env):
                environment |= step.variables
            if isinstance(step, Workdir):
                workdir = step.path
        return ImageFacts(environment, workdir)


def parse_manifest(value: object, field: str = "image") -> ImageDefinition:
    """Understand a manifest. Raises InvalidInput that names what is wrong; unknown fields are passed over."""
    manifest = Fields(value, field)
    base = manifest.text("base", DEFAULT_BASE)
    raw_steps = manifest.items("steps", optional=True)
    if len(raw_steps) > MAX_STEPS:
        raise InvalidInput(f"{field}.steps: at most {MAX_STEPS} are possible", field=f"{field}.steps")
    steps = tuple(_step(raw, f"{field}.steps.{index}") for index, raw in enumerate(raw_steps))
    _check_sizes(steps, field)
    base = DEFAULT_BASE if base in BASE_ALIASES else base
    encoded = [_canonical(raw) for raw in raw_steps]
    text = json.dumps(value, separators=(",", ":"))
    return ImageDefinition(
        base=base,
        steps=steps,
        content_hash=_content_hash(base, encoded),
        prefix_hashes=tuple(_prefix_hashes(base, encoded)),
        builder_memory_mb=_builder_memory(manifest),
        runtime_memory_mb=_runtime_memory(manifest),
        name=manifest.optional_text("name"),
        manifest=text,
        shown_manifest=text if len(text) <= _SHOWN_BYTES else json.dumps(_without_content(value)),
    )


def command_steps_end(steps: Sequence[Step], start: int) -> int:
    """Where to save files next, building from step `start` on: behind the next step that runs programs."""
    for index in range(start, len(steps)):
        if isinstance(steps[index], COMMANDS):
            return index + 1
    return len(steps)


def _step(raw: object, field: str) -> Step:
    step = Fields(raw, field)
    kind = step.text("type")
    parse = _PARSERS.get(kind)
    if parse is None:
        known = ", ".join(_PARSERS)
        raise InvalidInput(f"{field}.type: {kind!r} is not one of {known}", field=f"{field}.type")
    return parse(step.object("args"))


def _apt_install(args: Fields) -> Step:
    return AptInstall(_script_parts(args, "packages", package))


def _pip_install(args: Fields) -> Step:
    return PipInstall(_script_parts(args, "packages", package))


def _run(args: Fields) -> Step:
    return Run(_script_parts(args, "commands"))


def _script_parts(args: Fields, name: str, check: Callable[[str, str], str] | None = None) -> tuple[str, ...]:
    parts = tuple(args.texts(name, check))
    where = f"{args.field}.{name}"
    if sum(len(part.encode()) + 1 for part in parts) > MAX_SCRIPT_BYTES:
        raise InvalidInput(f"{where}: at most {MAX_SCRIPT_BYTES} bytes in one step", field=where)
    return parts


def _env(args: Fields) -> Step:
    variables = {
        variable_name(name, f"{args.field}.vars"): value for name, value in args.text_map("vars").items()
    }
    check_environment(variables, f"{args.field}.vars")
    return Env(variables)


def _workdir(args: Fields) -> Step:
    return Workdir(absolute_path(args.text("path"), f"{args.field}.path"))


def _add_file(args: Fields) -> Step:
    path, where = args.text("path"), f"{args.field}.path"
    if args.text("encoding", "base64") != "base64":
        raise InvalidInput(f"{args.field}.encoding: only base64 is known", field=f"{args.field}.encoding")
    if path.endswith("/"):
        raise InvalidInput(f"{where}: names a directory", field=where)
    return AddFile(_file(args, absolute_path(path, where)))


def _add_dir(args: Fields) -> Step:
    path = absolute_path(args.text("path"), f"{args.field}.path")
    files: dict[str, ImageFile] = {}
    for index, raw in enumerate(args.items("files")):
        entry = Fields(raw, f"{args.field}.files.{index}")
        where = f"{entry.field}.relativePath"
        relative = relative_path(entry.text("relativePath"), where)
        if relative in files:
            raise InvalidInput(f"{where}: {relative!r} is there twice", field=where)
        files[relative] = _file(entry, relative)
    return AddDirectory(path, tuple(files.values()))


def _file(fields: Fields, path: str) -> ImageFile:
    content = file_content(fields.text("content"), f"{fields.field}.content")
    return ImageFile(path, content, file_mode(fields.optional_text("mode"), f"{fields.field}.mode"))


_PARSERS = {
    "apt_install": _apt_install,
    "pip_install": _pip_install,
    "run": _run,
    "env": _env,
    "workdir": _workdir,
    "add_file": _add_file,
    "add_dir": _add_dir,
}


def _check_sizes(steps: Sequence[Step], field: str) -> None:
    files = [file for step in steps for file in _files_of(step)]
    size = sum(len(file.content) for file in files)
    variables = {
        name: value for step in steps if isinstance(step, Env) for name, value in step.variables.items()
    }
    if len(files) > MAX_FILES:
        raise InvalidInput(f"{field}.steps: at most {MAX_FILES} files are possible", field=f"{field}.steps")
    if size > MAX_CONTENT_BYTES:
        raise InvalidInput(
            f"{field}.steps: files must have at most {MAX_CONTENT_BYTES >> 20} MB in all",
            field=f"{field}.steps",
        )
    check_environment(variables, f"{field}.steps")


def _files_of(step: Step) -> Sequence[ImageFile]:
    if isinstance(step, AddFile):
        return [step.file]
    return step.files if isinstance(step, AddDirectory) else []


def _builder_memory(manifest: Fields) -> int:
    least, most = min(TIERS), max(TIERS)
    size = whole(manifest.get("builderMemoryMB"), DEFAULT_BUILDER_MEMORY_MB)
    if size is None or not least <= size <= most:
        where = f"{manifest.field}.builderMemoryMB"
        raise InvalidInput(f"{where}: must be a whole number from {least} to {most}", field=where)
    return size


def _runtime_memory(manifest: Fields) -> int:
    size = whole(manifest.get("runtimeMemoryMB"), DEFAULT_RUNTIME_MEMORY_MB)
    if size is None or size not in TIERS:
        where = f"{manifest.field}.runtimeMemoryMB"
        raise InvalidInput(f"{where}: must be one of {', '.join(map(str, TIERS))}", field=where)
    return size


def _content_hash(base: str, steps: Sequence[str]) -> str:
    """SHA-256 of the canonical JSON of `{"base", "steps"}`, put together from parts that are encoded."""
    text = f'{{"base":{_canonical(base)},"steps":[{",".join(steps)}]}}'
    return hashlib.sha256(text.encode()).hexdigest()


def _prefix_hashes(base: str, steps: Sequence[str]) -> Sequence[str]:
    hashes = [_digest(base)]
    for step in steps:
        hashes.append(_digest(hashes[-1], step))
    return hashes


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _canonical(value: object) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def _is_object(value: object) -> TypeGuard[dict[str, object]]:
    return isinstance(value, dict)


def _is_array(value: object) -> TypeGuard[list[object]]:
    return isinstance(value, list)


def _without_content(value: object) -> object:
    if _is_array(value):
        return [_without_content(each) for each in value]
    if _is_object(value):
        return {name: _without_content(each) for name, each in value.items() if name != "content"}
    return value
