"""Images: what a sandbox starts with, described step by step and built once."""

from __future__ import annotations

import base64
import copy
import hashlib
import json
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from opencomputer.sdk.answers import Described, JsonObject
from opencomputer.sdk.texts import listed

MAX_CONTENT_BYTES = 32 << 20
_EXECUTABLE = "755"


@dataclass(frozen=True)
class ImageStep:
    """One step, as the server gets it."""

    type: str
    args: Mapping[str, object]

    def to_dict(self) -> Described:
        """Its JSON."""
        return {"type": self.type, "args": copy.deepcopy(dict(self.args))}


@dataclass(frozen=True)
class Image:
    """A recipe. Each call returns a new one with a step more, so that one recipe can be the start of several.

    Begin with `Image.base()`. The server runs the steps in order, once for the same recipe, and starts
    sandboxes from the result.
    """

    template: str = "base"
    steps: tuple[ImageStep, ...] = ()
    builder_memory_mb: int | None = None

    @classmethod
    def base(cls, template: str = "base") -> Image:
        """A recipe without steps, on a template of the server."""
        return cls(template)

    def apt_install(self, packages: Sequence[str]) -> Image:
        """Install packages of the distribution."""
        return self._with("apt_install", packages=listed(packages, "packages"))

    def pip_install(self, packages: Sequence[str]) -> Image:
        """Install Python packages for the whole system."""
        return self._with("pip_install", packages=listed(packages, "packages"))

    def run_commands(self, *commands: str) -> Image:
        """Run commands in one shell, as the sandbox user, who may `sudo`. The first to fail ends it."""
        return self._with("run", commands=listed(commands, "commands"))

    def env(self, vars: Mapping[str, str]) -> Image:
        """Set variables for later steps, and for every process of every sandbox of this image."""
        return self._with("env", vars=dict(vars))

    def workdir(self, path: str) -> Image:
        """Make a directory, and have later steps and all processes start in it."""
        return self._with("workdir", path=path)

    def add_file(self, remote_path: str, content: str | bytes, *, mode: str | None = None) -> Image:
        """Put a file at an absolute path. `mode` is octal, as "755"; 644 unless it is given."""
        raw = content.encode() if isinstance(content, str) else content
        return self._with("add_file", path=remote_path, encoding="base64", **_file(raw, mode))

    def add_local_file(self, local_path: str | os.PathLike[str], remote_path: str) -> Image:
        """Put a file of this machine, as it is now, at an absolute path. Executable ones stay executable."""
        path = Path(local_path).expanduser()
        return self.add_file(remote_path, _read(path, MAX_CONTENT_BYTES), mode=_mode(path))

    def add_local_dir(self, local_path: str | os.PathLike[str], remote_path: str) -> Image:
        """Put what is in a directory of this machine, as it is now, into one at an absolute path.

        Files whose names begin with a dot are included, and links to files within the directory become
        copies. Raises ValueError for other links and for what is no file, and for more than 32 MB.
        """
        root = Path(local_path).expanduser()
        files: list[JsonObject] = []
        left = MAX_CONTENT_BYTES
        for path in _files_below(root):
            content = _read(path, left)
            left -= len(content)
            files.append({"relativePath": path.relative_to(root).as_posix(), **_file(content, _mode(path))})
        return self._with("add_dir", path=remote_path, files=files)

    def builder_memory(self, mb: int) -> Image:
        """How much memory the build has. Sandboxes of the image have what they are created with."""
        return replace(self, builder_memory_mb=mb)

    def to_dict(self) -> Described:
        """The manifest, as the server gets it."""
        manifest = self._content()
        if self.builder_memory_mb is not None:
            manifest["builderMemoryMB"] = self.builder_memory_mb
        return manifest

    def cache_key(self) -> str:
        """What the server knows the build by: the same for the same template, steps and files."""
        canonical = json.dumps(self._content(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()

    def _content(self) -> JsonObject:
        return {"base": self.template, "steps": [step.to_dict() for step in self.steps]}

    def _with(self, kind: str, **args: object) -> Image:
        return replace(self, steps=(*self.steps, ImageStep(kind, args)))


def _file(content: bytes, mode: str | None) -> JsonObject:
    fields: JsonObject = {"content": base64.b64encode(content).decode()}
    return fields if mode is None else {**fields, "mode": mode}


def _mode(path: Path) -> str | None:
    return _EXECUTABLE if path.stat().st_mode & stat.S_IXUSR else None


def _read(path: Path, most: int) -> bytes:
    with path.open("rb") as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise ValueError(f"{path}: an image can have at most {MAX_CONTENT_BYTES >> 20} MB of files")
    return content


def _files_below(root: Path) -> Iterator[Path]:
    """All files, by relative path in order."""
    if not root.is_dir():
        raise NotADirectoryError(f"{root} is not a directory")
    found: list[Path] = []
    for folder, folders, names in os.walk(root):
        # A walk does not go through links to directories: it would leave them out without a word.
        links = [name for name in folders if os.path.islink(os.path.join(folder, name))]
        found += [Path(folder) / name for name in (*names, *links)]
    for path in sorted(found, key=lambda each: each.relative_to(root).as_posix()):
        if path.is_symlink():
            _check_link(root, path)
        elif not path.is_file():
            raise ValueError(f"{path} is not a file")
        yield path


def _check_link(root: Path, path: Path) -> None:
    target = path.resolve()
    if not target.is_relative_to(root.resolve()):
        raise ValueError(f"{path} is a link that leads out of {root}")
    if not target.is_file():
        raise ValueError(f"{path} is a link to something that is no file")
