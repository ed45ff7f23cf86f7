"""The installed templates as services see them: names and layers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from opencomputer.server.contracts.templates import TemplateLayers
from opencomputer.server.templates.catalogue import (
    Template,
    TemplateMissing,
    current_template,
    list_templates,
)


class InstalledTemplates:
    """Implements TemplateCatalogue. Only current builds count: a new machine never starts from an old one."""

    def __init__(self, templates_dir: Path) -> None:
        self._templates_dir = templates_dir

    def list(self) -> Sequence[TemplateLayers]:
        return [_layers(template) for template in list_templates(self._templates_dir) if template.current]

    def get(self, name: str) -> TemplateLayers | None:
        if not name or "/" in name or name.startswith("."):
            return None
        try:
            return _layers(current_template(self._templates_dir, name))
        except TemplateMissing:
            return None


def _layers(template: Template) -> TemplateLayers:
    return TemplateLayers(template.name, template.hash, (template.rootfs,))
