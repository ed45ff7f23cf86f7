"""`/api/templates` (sandbox-wire.md section 15)."""

from __future__ import annotations

from opencomputer.wire.model import WireModel


class TemplateView(WireModel):
    """A template that is there is ready; its id is its name."""

    template_id: str
    name: str
    tag: str = "latest"
    status: str = "ready"
