"""The templates that are built and ready on this host.

TEMPLATES/NAME/HASH/rootfs           the immutable root file system
TEMPLATES/NAME/HASH/template.json    what it is and when it was built
TEMPLATES/NAME/current               symbolic link to the HASH new machines start from
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import cast

from opencomputer.server.domain.errors import NotFound, OpenComputerError
from opencomputer.server.host.locks import Held, exclusive, exclusive_now
from opencomputer.server.host.trees import remove_tree

DESCRIPTION_FILE = "template.json"
CURRENT = "current"
HALF_BUILT_PREFIX = ".building-"
LOCK_FILE = ".lock"
PRUNED_AFTER = timedelta(minutes=10)
"""A build that stopped being current a moment ago may be what somebody is starting from just now."""


class TemplateMissing(NotFound):
    """There is no such template on this machine; `oc template build` makes it."""

    code = "template_not_found"


class TemplateUnreadable(OpenComputerError):
    """Only root can read the templates of this machine that were made from images."""

    code = "template_unreadable"


@dataclass(frozen=True)
class ImageOrigin:
    """The OCI image a template was imported from.

    `digest` is its manifest's, `user` whom the image would run as; `notes` say what does not work in it.
    """

    source: str
    digest: str
    user: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Template:
    """One complete template. `rootfs` never changes; a changed recipe or image gives another `hash`.

    `environment` and `workdir` are what its sandboxes have by default.
    """

    name: str
    hash: str
    rootfs: Path
    description: str
    built_at: datetime
    size_bytes: int
    package_count: int
    current: bool
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    workdir: str | None = None
    image: ImageOrigin | None = None


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


def remove_template(
    templates_dir: Path, name: str, hash: str | None = None, on_wait: Callable[[], None] = lambda: None
) -> list[Template]:
    """Remove one build of a template, or all of them. Returns what was removed; raises TemplateMissing.

    The caller makes sure that no machine uses it any more. Waits while templates are built.
    """
    doomed = _builds(templates_dir, name, hash)
    if not doomed:
        raise TemplateMissing(f"There is no template `{name if hash is None else f'{name}/{hash}'}`.")
    with exclusive(templates_dir / LOCK_FILE, on_wait):
        doomed = _builds(templates_dir, name, hash)
        for template in doomed:
            if template.current:
                (templates_dir / name / CURRENT).unlink(missing_ok=True)
            _remove(template)
    return doomed


def prune_templates(templates_dir: Path, wanted_hashes: Collection[str], now: datetime) -> list[Template]:
    """Remove what is neither current nor wanted, and was not current within `PRUNED_AFTER`.

    A name without a current build is left alone. Removes nothing while templates are being built.
    """
    if not templates_dir.is_dir():
        return []
    try:
        with exclusive_now(templates_dir / LOCK_FILE):
            doomed = [
                template for template in list_templates(templates_dir)
                if not template.current
                and template.hash not in wanted_hashes
                and _settled_before(templates_dir / template.name, now - PRUNED_AFTER)
            ]  # fmt: skip
            for template in doomed:
                _remove(template)
            return doomed
    except Held:
        return []


def _settled_before(folder: Path, moment: datetime) -> bool:
    try:
        changed = (folder / CURRENT).lstat().st_mtime
    except FileNotFoundError:
        return False
    return datetime.fromtimestamp(changed, UTC) < moment


def _builds(templates_dir: Path, name: str, hash: str | None) -> list[Template]:
    return [
        template for template in list_templates(templates_dir)
        if template.name == name and hash in (None, template.hash)
    ]  # fmt: skip


def _remove(template: Template) -> None:
    """Renamed first: a removal that is cut short leaves no template that looks complete."""
    folder = template.rootfs.parent
    half = folder.with_name(f"{HALF_BUILT_PREFIX}{folder.name}-removed")
    remove_tree(half)
    folder.rename(half)
    remove_tree(half)


def make_current(templates_dir: Path, name: str, hash: str) -> None:
    """Let new machines start from this build. Takes effect at once, never half."""
    folder = templates_dir / name
    fresh = folder / f".{CURRENT}-{os.getpid()}"
    fresh.unlink(missing_ok=True)
    fresh.symlink_to(hash)
    fresh.replace(folder / CURRENT)


def describe(template: Template) -> str:
    """The text of a template's `template.json`."""
    fields: dict[str, object] = {
        "name": template.name,
        "hash": template.hash,
        "description": template.description,
        "builtAt": template.built_at.isoformat(),
        "sizeBytes": template.size_bytes,
        "packages": template.package_count,
        "environment": dict(template.environment),
        "workdir": template.workdir,
    }
    if template.image is not None:
        fields["image"] = asdict(template.image)
    return json.dumps(fields, indent=2)


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


def _image(fields: Mapping[str, object]) -> ImageOrigin:
    notes = cast(Sequence[object], fields["notes"])
    return ImageOrigin(
        str(fields["source"]), str(fields["digest"]), str(fields["user"]), tuple(map(str, notes))
    )


def _read(folder: Path, *, current: bool) -> Template | None:
    try:
        fields = json.loads((folder / DESCRIPTION_FILE).read_text())
        environment = cast(dict[str, str], fields.get("environment") or {})
        image = fields.get("image")
        return Template(
            name=str(fields["name"]),
            hash=str(fields["hash"]),
            rootfs=folder / "rootfs",
            description=str(fields["description"]),
            built_at=datetime.fromisoformat(fields["builtAt"]),
            size_bytes=int(fields["sizeBytes"]),
            package_count=int(fields["packages"]),
            current=current,
            environment={str(key): str(value) for key, value in environment.items()},
            workdir=fields.get("workdir"),
            image=_image(image) if image else None,
        )
    except PermissionError as error:
        raise TemplateUnreadable from error
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
