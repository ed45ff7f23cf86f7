"""What an image says about how its programs want to be run. Anybody may have written it."""

from __future__ import annotations

import json
import posixpath
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from opencomputer.server.domain.errors import InvalidInput
from opencomputer.server.domain.limits import check_environment
from opencomputer.server.templates.commands import BuildFailed
from opencomputer.server.templates.images.source import is_digest

_MOST_BYTES = 4 << 20
_LONGEST_PATH = 1024
_OF_ANOTHER_USER = frozenset({"HOME", "USER", "LOGNAME", "SHELL", "HOSTNAME", "PWD", "OLDPWD"})
"""An image means its own user by these; machines run programs as `sandbox`."""


@dataclass(frozen=True)
class ImageConfig:
    """`workdir` is None where the image has no opinion; `user` is empty then."""

    environment: Mapping[str, str]
    workdir: str | None
    user: str
    architecture: str


def read_config(layout: Path) -> ImageConfig:
    """The configuration of the only image in an OCI layout. Raises BuildFailed."""
    try:
        (entry,) = cast(Sequence[Mapping[str, object]], _load(layout / "index.json")["manifests"])
        manifest = _blob(layout, entry)
        return parse_config(_blob(layout, cast(Mapping[str, object], manifest["config"])))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise BuildFailed("The image's configuration cannot be read.") from error


def parse_config(document: Mapping[str, object]) -> ImageConfig:
    """Raises BuildFailed, ValueError, TypeError or AttributeError for what is no configuration."""
    config = cast(Mapping[str, object], document.get("config") or {})
    return ImageConfig(
        environment=_environment(config.get("Env")),
        workdir=_workdir(_text(config.get("WorkingDir"))),
        user=_text(config.get("User"))[:_LONGEST_PATH],
        architecture=_text(document.get("architecture")),
    )


def _environment(lines: object) -> dict[str, str]:
    if not isinstance(lines, list | None):
        raise TypeError("not a list")
    pairs = (_text(line).partition("=") for line in cast(Sequence[object], lines or ()))
    environment = {
        name: value for name, equals, value in pairs if name and equals and name not in _OF_ANOTHER_USER
    }
    try:
        check_environment(environment, "The image's environment")
    except InvalidInput as error:
        raise BuildFailed(error.message) from error
    return environment


def _workdir(text: str) -> str | None:
    """`/` is what images have that never said anything."""
    if "\0" in text or len(text) > _LONGEST_PATH:
        raise BuildFailed("The image's working directory is no path.")
    folder = posixpath.normpath(f"/{text.lstrip('/')}")
    return None if folder == "/" else folder


def _text(value: object) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise TypeError("not a text")
    return value


def _blob(layout: Path, descriptor: Mapping[str, object]) -> Mapping[str, object]:
    digest = _text(descriptor["digest"])
    if not is_digest(digest):
        raise ValueError("not a digest")
    return _load(layout / "blobs/sha256" / digest.removeprefix("sha256:"))


def _load(path: Path) -> Mapping[str, object]:
    with path.open("rb") as file:
        content = file.read(_MOST_BYTES + 1)
    if len(content) > _MOST_BYTES:
        raise ValueError("too long")
    return cast(Mapping[str, object], json.loads(content))
