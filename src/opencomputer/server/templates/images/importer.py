"""Turns an OCI image into a template: fetch, unpack, clean, furnish, then one rename."""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from opencomputer.server.host.distribution import extra_certificates
from opencomputer.server.host.trees import remove_tree
from opencomputer.server.templates.catalogue import ImageOrigin, Template, find_template, make_current
from opencomputer.server.templates.commands import ALONE, BuildFailed, Objection, Progress, run
from opencomputer.server.templates.drafts import Workshop, measure, workshop
from opencomputer.server.templates.images import furnishing
from opencomputer.server.templates.images.cleaning import clean
from opencomputer.server.templates.images.config import ImageConfig, read_config
from opencomputer.server.templates.images.rooted import RootedTree
from opencomputer.server.templates.images.source import (
    ImageSource,
    architecture_of,
    choose_name,
    copy_arguments,
    inspect_arguments,
    parse_digest,
    parse_source,
    program_environment,
    unpack_arguments,
)

_KEPT_FREE_BYTES = 1 << 30
_DEEPEST = 256
"""umoci looks at all folders on the way for every file: its time grows with the cube of the depth."""
_MOST_SECONDS = 3 * 3600
_HASH_DIGITS = 16
_LEAST_AVERAGE_BYTES = 20 << 10


@dataclass(frozen=True)
class ImportLimits:
    """What an image may take on disk, packed and unpacked. So many files and folders may be in it, too."""

    size_bytes: int = 20 << 30

    @property
    def entries(self) -> int:
        """Nothing but names would fill a disk as well."""
        return self.size_bytes // _LEAST_AVERAGE_BYTES


@dataclass(frozen=True)
class ImportOptions:
    """`environment` is the operator's; of it skopeo sees proxies and where credentials are kept."""

    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    trust_host_certificates: bool = True
    limits: ImportLimits = ImportLimits()


def import_template(
    source: str, name: str | None, templates_dir: Path, progress: Progress, options: ImportOptions
) -> Template:
    """Make a template from an image and let new sandboxes of that name start from it.

    The same image gives the same build, and is fetched once; a tag that names another image now gives
    another build, and the former one stays. Raises InvalidSource or BuildFailed; then, and when it is
    interrupted, nothing that looks like a template is left behind.
    """
    parsed = parse_source(source)
    chosen = choose_name(parsed, name)
    certificates = extra_certificates() if options.trust_host_certificates else []
    with workshop(templates_dir, chosen, progress) as shop:
        work = _Import(parsed, shop, progress, options, certificates)
        digest = work.identify()
        wanted = _hash(digest, certificates)
        template = find_template(templates_dir, chosen, wanted) or work.build(chosen, digest, wanted)
        make_current(templates_dir, chosen, wanted)
    return replace(template, current=True)


def _hash(digest: str, certificates: Sequence[Path]) -> str:
    key = f"image {furnishing.GENERATION}\n{digest}\n{platform.machine()}\n"
    return hashlib.sha256(
        key.encode() + b"".join(sorted(hashlib.sha256(path.read_bytes()).digest() for path in certificates))
    ).hexdigest()[:_HASH_DIGITS]


@dataclass(frozen=True)
class _Import:
    """One import on its way."""

    source: ImageSource
    shop: Workshop
    progress: Progress
    options: ImportOptions
    certificates: Sequence[Path]

    def identify(self) -> str:
        """The digest of the image that the source names now."""
        self.progress(f"> looking up {self.source}")
        lines: list[str] = []
        with self.shop.draft("lookup") as folder:
            self._run(inspect_arguments(self.source, _architecture()), folder, lines.append, watched=folder)
        digest = parse_digest(lines)
        if digest is None:
            raise BuildFailed(f"skopeo does not say which image {self.source} is.")
        return digest

    def build(self, name: str, digest: str, wanted: str) -> Template:
        with self.shop.draft(wanted) as draft:
            # Images bring set-user-ID programs of unknown origin: nobody but root gets to them on the host.
            draft.chmod(0o700)
            layout = draft / "layout"
            self.progress(f"> fetching {digest}")
            arguments = copy_arguments(self.source.at(digest), layout, _architecture())
            self._run(arguments, draft, self.progress, watched=draft)
            config = read_config(layout)
            if config.architecture not in ("", _architecture()):
                raise BuildFailed(f"The image is for {config.architecture}; this host is {_architecture()}.")
            root = self._unpack(draft, layout)
            self.progress("> preparing it for sandboxes")
            notes = self._furnish(root, config)
            origin = ImageOrigin(str(self.source), digest, config.user, tuple(notes))
            template = self._describe(name, wanted, config, origin, measure(root).size_bytes)
            self.shop.publish(draft, template)
        return template

    def _unpack(self, draft: Path, layout: Path) -> Path:
        self.progress("> unpacking")
        # A folder between: an entry called `.wh...` makes umoci remove the one above the root.
        outer = draft / "unpacked"
        outer.mkdir()
        self._run(unpack_arguments(layout, outer / "rootfs"), draft, self.progress, watched=outer)
        remove_tree(layout)
        root = draft / "rootfs"
        (outer / "rootfs").rename(root)
        remove_tree(outer)
        return root

    def _furnish(self, root: Path, config: ImageConfig) -> list[str]:
        removed = clean(root)
        if removed.devices:
            self.progress(f"left out {removed.devices} devices; machines bring their own")
        os.chown(root, 0, 0)
        root.chmod(0o755)
        furniture = furnishing.Furniture(self.certificates, self.options.trust_host_certificates)
        return furnishing.furnish(RootedTree(root), config, furniture)

    def _describe(
        self, name: str, wanted: str, config: ImageConfig, origin: ImageOrigin, size_bytes: int
    ) -> Template:
        return Template(
            name=name,
            hash=wanted,
            rootfs=self.shop.home / wanted / "rootfs",
            description=f"The image {origin.source}",
            built_at=datetime.now(UTC),
            size_bytes=size_bytes,
            package_count=0,
            current=True,
            environment=config.environment,
            workdir=config.workdir,
            image=origin,
        )

    def _run(self, arguments: Sequence[str], temporary: Path, progress: Progress, *, watched: Path) -> None:
        run(
            [*ALONE, *arguments],
            environment=program_environment(self.options.environment, temporary),
            progress=progress,
            keep_open=(self.shop.lock,),
            objection=_objection(watched, self.shop.home, self.options.limits),
        )


def _objection(folder: Path, home: Path, limits: ImportLimits) -> Objection:
    """Archives may unpack to anything: look at what they really take."""

    deadline = time.monotonic() + _MOST_SECONDS

    def object_to() -> str | None:
        extent = measure(folder)
        if time.monotonic() > deadline:
            return f"It has taken longer than {_MOST_SECONDS // 3600} hours."
        if extent.depth > _DEEPEST:
            return f"The image has folders nested more than {_DEEPEST} deep."
        if extent.size_bytes > limits.size_bytes:
            return f"The image takes more than {limits.size_bytes >> 20} MiB; --max-size allows more."
        if extent.entries > limits.entries:
            return f"The image has more than {limits.entries} files and folders; --max-size allows more."
        if shutil.disk_usage(home).free < _KEPT_FREE_BYTES:
            return "The disk of the templates is nearly full."
        return None

    return object_to


def _architecture() -> str:
    return architecture_of(platform.machine())
