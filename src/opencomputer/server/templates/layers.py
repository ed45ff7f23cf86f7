"""The installed templates as services see them: names and layers."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from pathlib import Path

from opencomputer.server.contracts.templates import TemplateLayers
from opencomputer.server.templates.catalogue import (
    Template,
    TemplateMissing,
    current_template,
    find_template,
    list_templates,
    prune_templates,
)
from opencomputer.server.templates.needs import declare, forget_gone, needed


class InstalledTemplates:
    """Implements TemplateCatalogue. A new sandbox never starts from an old build, an existing one may.

    `node` is the data folder of who asks, by which other nodes know it; who has none prunes nothing.
    """

    def __init__(self, templates_dir: Path, node: Path | None = None) -> None:
        self._templates_dir = templates_dir
        self._node = node

    def list(self) -> Sequence[TemplateLayers]:
        return [_layers(template) for template in list_templates(self._templates_dir) if template.current]

    def get(self, name: str) -> TemplateLayers | None:
        if not _is_file_name(name):
            return None
        try:
            return _layers(current_template(self._templates_dir, name))
        except TemplateMissing:
            return None

    def find(self, name: str, hash: str) -> TemplateLayers | None:
        if not _is_file_name(name) or not _is_file_name(hash):
            return None
        found = find_template(self._templates_dir, name, hash)
        return None if found is None else _layers(found)

    def prune(self, wanted_hashes: Collection[str]) -> Sequence[str]:
        if self._node is None or not self._templates_dir.is_dir():
            return []
        now = datetime.now(UTC)
        declare(self._templates_dir, self._node, wanted_hashes)
        forget_gone(self._templates_dir, now)
        removed = prune_templates(self._templates_dir, needed(self._templates_dir).keys(), now)
        return [template.hash for template in removed]


def _is_file_name(text: str) -> bool:
    """Templates are folders: what cannot be a folder's name is none."""
    return bool(text) and "/" not in text and "\0" not in text and not text.startswith(".")


def _layers(template: Template) -> TemplateLayers:
    return TemplateLayers(
        template.name, template.hash, (template.rootfs,), template.environment, template.workdir
    )
