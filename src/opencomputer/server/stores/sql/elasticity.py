"""The columns that say what is settled about a sandbox's size."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from opencomputer.server.domain.sandbox import Elasticity
from opencomputer.server.stores.sql.tables import sandboxes


def elasticity_values(elasticity: Elasticity) -> dict[str, Any]:
    return {
        "scaling_locked": elasticity.locked,
        "autoscale": elasticity.autoscale,
        "autoscale_min_mb": elasticity.min_memory_mb,
        "autoscale_max_mb": elasticity.max_memory_mb,
        "autoscale_up_after": elasticity.up_after,
        "autoscale_down_after": elasticity.down_after,
        "resize_mb": elasticity.resize_mb,
    }


def elasticity_of(row: sa.Row[Any]) -> Elasticity:
    return Elasticity(
        locked=row.scaling_locked,
        autoscale=row.autoscale,
        min_memory_mb=row.autoscale_min_mb,
        max_memory_mb=row.autoscale_max_mb,
        up_after=row.autoscale_up_after,
        down_after=row.autoscale_down_after,
        resize_mb=row.resize_mb,
    )


def is_still(elasticity: Elasticity) -> list[sa.ColumnElement[bool]]:
    """Conditions that hold for a row of exactly this elasticity."""
    values = elasticity_values(elasticity)
    return [sandboxes.c[name].is_not_distinct_from(value) for name, value in values.items()]
