"""A template's recipe: a folder with `recipe.toml`, `customise.sh` and the tree `files/`."""

from __future__ import annotations

import hashlib
import re
import stat
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from opencomputer.server.domain.errors import InvalidInput

_BUILDER_GENERATION = 1
"""Part of every hash: raised when the builder itself starts to make something else from the same recipe."""

_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
_KNOWN_KEYS = {"name", "description", "packages", "exclude", "include", "variables", "modes"}


class InvalidRecipe(InvalidInput):
    """The template's recipe is not valid."""

    code = "invalid_recipe"


@dataclass(frozen=True)
class Recipe:
    """What a template is made of. `hash` changes whenever anything of it does."""

    name: str
    description: str
    folder: Path
    packages: tuple[str, ...]
    exclude: tuple[str, ...]
    include: tuple[str, ...]
    variables: Mapping[str, str]
    modes: Mapping[str, int]
    content: str
    """Digest of every file of the recipe: paths, execute bits, link targets and bytes."""

    @property
    def script(self) -> Path:
        return self.folder / "customise.sh"

    @property
    def files(self) -> Path:
        return self.folder / "files"


def load_recipe(folder: Path) -> Recipe:
    """Read a recipe. Raises InvalidRecipe, which says what is wrong, when it cannot be built as it is."""
    path = folder / "recipe.toml"
    try:
        table = tomllib.loads(path.read_text())
    except FileNotFoundError:
        raise InvalidRecipe(f"There is no recipe at {path}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidRecipe(f"{path} cannot be read: {error}") from error
    if unknown := sorted(table.keys() - _KNOWN_KEYS):
        raise InvalidRecipe(f"{path} has unknown keys: {', '.join(unknown)}.")
    name = str(table.get("name", ""))
    if not _NAME.fullmatch(name):
        raise InvalidRecipe(f"{path}: `name` must be lower-case letters, digits and hyphens.")
    return Recipe(
        name=name,
        description=str(table.get("description", "")),
        folder=folder,
        packages=_strings(path, table, "packages"),
        exclude=_strings(path, table, "exclude"),
        include=_strings(path, table, "include"),
        variables=_text_table(path, table, "variables"),
        modes=_modes(path, table),
        content=digest_of_tree(folder),
    )


def template_hash(recipe: Recipe, *, host: str, certificates: Iterable[bytes]) -> str:
    """The hash that names what this recipe gives on this host: 16 hex digits.

    `host` names distribution, release and architecture; `certificates` are the authorities that the host
    adds to its own trust, which the template trusts too.
    """
    digest = hashlib.sha256(f"{_BUILDER_GENERATION}\n{host}\n{recipe.content}\n".encode())
    for certificate in sorted(certificates):
        digest.update(hashlib.sha256(certificate).digest())
    return digest.hexdigest()[:16]


def digest_of_tree(folder: Path) -> str:
    """Digest of everything below `folder` that would matter to a copy of it, caches of Python excepted."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if "__pycache__" in path.parts or path.suffix == ".pyc":
            continue
        mode = path.lstat().st_mode
        name = path.relative_to(folder).as_posix()
        if stat.S_ISLNK(mode):
            digest.update(f"link {name}\0{path.readlink()}\0".encode())
        elif stat.S_ISREG(mode):
            content = hashlib.sha256(path.read_bytes()).hexdigest()
            digest.update(f"file {name}\0{bool(mode & stat.S_IXUSR)}\0{content}\0".encode())
        elif stat.S_ISDIR(mode):
            digest.update(f"folder {name}\0".encode())
    return digest.hexdigest()


def _modes(path: Path, table: Mapping[str, object]) -> dict[str, int]:
    modes: dict[str, int] = {}
    for name, mode in _text_table(path, table, "modes").items():
        if not re.fullmatch("[0-7]{3,4}", mode):
            raise InvalidRecipe(f"{path}: the mode of {name} must be three or four octal digits.")
        if name.startswith("/") or ".." in name.split("/"):
            raise InvalidRecipe(f"{path}: {name} is not a path inside the template.")
        modes[name] = int(mode, 8)
    return modes


def _strings(path: Path, table: Mapping[str, object], key: str) -> tuple[str, ...]:
    value = table.get(key, [])
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):  # pyright: ignore[reportUnknownVariableType] - narrowed by this very test
        raise InvalidRecipe(f"{path}: `{key}` must be a list of strings.")
    return tuple(str(item) for item in value)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType] - checked above


def _text_table(path: Path, table: Mapping[str, object], key: str) -> dict[str, str]:
    value = table.get(key, {})
    if not isinstance(value, dict) or not all(isinstance(item, str) for item in value.values()):  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType] - narrowed by this very test
        raise InvalidRecipe(f"{path}: `{key}` must be a table of strings.")
    return {str(name): str(item) for name, item in value.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType, reportUnknownMemberType] - checked above
