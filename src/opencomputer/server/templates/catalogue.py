"""The templates that are built and ready on this host.

TEMPLATES/NAME/HASH/rootfs           the immutable root file system
TEMPLATES/NAME/HASH/template.json    what it is and when it was built
TEMPLATES/NAME/current               symbolic link to the HASH new machines start from
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from opencomputer.server.domain.errors import NotFound
from opencomputer.server.host.trees import remove_tree

DESCRIPTION_FILE = "template.json"
CURRENT = "current"
HALF_BUILT_PREFIX = ".building-"


class TemplateMissing(NotFound):
    """There is no such template on this machine; `oc template build` makes it."""

    code = "template_not_found"


@dataclass(frozen=True)
class Template:
    """One complete template. `rootfs` never changes; a changed recipe gives another `hash`."""

    name: str
    hash: str
    rootfs: Path
    description: str
    built_at: datetime
    size_bytes: int
    package_count: int
    current: bool


def list_templates(templates_dir: Path) -> list[Template]:
    """Every complete template, by name, the newest of a name first. A missing folder holds none."""
    found = list(_all(templates_dir))
    return sorted(found, key=lambda template: (template.name, -template.built_at.timestamp()))


def current_template(templates_dir: Path, name: str) -> Template:
    """The template that machines asking for `name` start from. Raises TemplateMissing."""
    link = templates_dir / name / CURRENT
    try:
        template = _read(link.parent / os.readlink(link), current=True)
    except OSError:
        template = None
    if template is None:
        raise TemplateMissing(f"There is no template `{name}` on this machine; `oc template build` makes it.")
    return template


def find_template(templates_dir: Path, name: str, hash: str) -> Template | None:
    """The complete template with exactly this hash, or None."""
    return _read(templates_dir / name / hash, current=_current_hash(templates_dir / name) == hash)


def remove_template(templates_dir: Path, name: str, hash: str | None = None) -> list[Template]:
    """Remove one build of a template, or all of them. Returns what was removed; raises TemplateMissing.

    The caller makes sure that no machine uses it any more.
    """
    doomed = [
        template for template in list_templates(templates_dir)
        if template.name == name and hash in (None, template.hash)
    ]  # fmt: skip
    if not doomed:
        raise TemplateMissing(f"There is no template `{name if hash is None else f'{name}/{hash}'}`.")
    for template in doomed:
        if template.current:
            (templates_dir / name / CURRENT).unlink(missing_ok=True)
        folder = template.rootfs.parent
        # Renamed first: a removal that is cut short leaves no template that looks complete.
        half = folder.with_name(f"{HALF_BUILT_PREFIX}{folder.name}-removed")
        folder.rename(half)
        remove_tree(half)
    return doomed


def make_current(templates_dir: Path, name: str, hash: str) -> None:
    """Let new machines start from this build. Takes effect at once, never half."""
    folder = templates_dir / name
    fresh = folder / f".{CURRENT}-{os.getpid()}"
    fresh.unlink(missing_ok=True)
    fresh.symlink_to(hash)
    fresh.replace(folder / CURRENT)


def describe(template: Template) -> str:
    """The text of a template's `template.json`."""
    return json.dumps(
        {
            "name": template.name,
            "hash": template.hash,
            "description": template.description,
            "builtAt": template.built_at.isoformat(),
            "sizeBytes": template.size_bytes,
            "packages": template.package_count,
        },
        indent=2,
    )


def _all(templates_dir: Path) -> Iterator[Template]:
    for folder in _folders(templates_dir):
        current = _current_hash(folder)
        for build in _folders(folder):
            template = _read(build, current=build.name == current)
            if template is not None:
                yield template


def _folders(parent: Path) -> list[Path]:
    if not parent.is_dir():
        return []
    return [
        path for path in sorted(parent.iterdir())
        if path.is_dir() and not path.is_symlink() and not path.name.startswith(".")
    ]  # fmt: skip


def _current_hash(folder: Path) -> str | None:
    try:
        return os.readlink(folder / CURRENT)
    except OSError:
        return None


def _read(folder: Path, *, current: bool) -> Template | None:
    try:
        fields = json.loads((folder / DESCRIPTION_FILE).read_text())
        return Template(
            name=str(fields["name"]),
            hash=str(fields["hash"]),
            rootfs=folder / "rootfs",
            description=str(fields["description"]),
            built_at=datetime.fromisoformat(fields["builtAt"]),
            size_bytes=int(fields["sizeBytes"]),
            package_count=int(fields["packages"]),
            current=current,
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None
