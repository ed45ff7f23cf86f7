"""The columns that sandboxes and snapshots share: what their machines are made of and inherit."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from opencomputer.server.contracts.stores import SandboxFields
from opencomputer.server.domain.sandbox import Sandbox, SandboxShape
from opencomputer.server.domain.snapshot import Origin


def origin_values(of: Sandbox | Origin) -> dict[str, Any]:
    return {
        "template": of.template,
        "template_hash": of.template_hash,
        **shape_values(of.shape),
        "layers": of.layers,
        "environment": dict(of.environment),
        "metadata": dict(of.metadata),
        "workdir": of.workdir,
        "network_enabled": of.network_enabled,
        "generation": of.generation,
        "patch_source": of.patch_source,
        "patch_position": of.patch_position,
        "secret_stores": of.secret_stores,
        "egress_allowlist": of.egress_allowlist,
    }


def field_values(fields: SandboxFields) -> dict[str, Any]:
    values: dict[str, Any] = {**fields}
    shape = values.pop("shape", None)
    return values if shape is None else values | shape_values(shape)


def shape_values(shape: SandboxShape) -> dict[str, Any]:
    return {"memory_mb": shape.memory_mb, "cpu_count": shape.cpu_count, "disk_mb": shape.disk_mb}


def shape_of(row: sa.Row[Any]) -> SandboxShape:
    return SandboxShape(row.memory_mb, row.cpu_count, row.disk_mb)
