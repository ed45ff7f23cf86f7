"""The size of a sandbox, and what may change it (sandbox-wire.md section 3)."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StrictBool, StrictInt

from opencomputer.wire.model import WireModel

_Megabytes = Annotated[StrictInt, Field(ge=0, le=1 << 40)]


class Scale(WireModel):
    """Either may be left out; given together they must fit."""

    memory_mb: _Megabytes | None = None
    cpu_percent: _Megabytes | None = None


class ScaledView(WireModel):
    """`migrated` is never true: machines of this server stay where they are."""

    sandbox_id: str
    memory_mb: int
    cpu_percent: int
    ok: bool = True
    migrated: bool = False
    autoscale_disabled: bool


class ScaledInsideView(WireModel):
    """What a machine is told that asked for itself."""

    ok: bool = True
    memory_mb: int
    cpu_percent: int


class SetAutoscale(WireModel):
    enabled: StrictBool
    min_memory_mb: _Megabytes | None = None
    max_memory_mb: _Megabytes | None = None


class AutoscaleView(WireModel):
    sandbox_id: str
    enabled: bool
    min_memory_mb: int
    max_memory_mb: int


class SetScalingLock(WireModel):
    locked: StrictBool


class ScalingLockView(WireModel):
    sandbox_id: str
    locked: bool
