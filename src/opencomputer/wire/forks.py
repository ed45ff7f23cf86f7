"""Forks: `/sandboxes/from-checkpoint/{id}` (sandbox-wire.md section 11.6) and `/sandboxes/{id}/fork`."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StrictInt, StrictStr

from opencomputer.wire.model import WireModel
from opencomputer.wire.sandboxes import MAX_SECONDS, EnvironmentMap


class ForkCheckpoint(WireModel):
    """`secret_store` is the name of one that comes above those which the source has."""

    timeout: Annotated[StrictInt, Field(ge=0, le=MAX_SECONDS)] | None = None
    """Seconds without use after which it falls asleep; not inherited."""
    envs: EnvironmentMap | None = None
    """Added to those it inherits; for processes that start later."""
    metadata: EnvironmentMap | None = None
    """Added to what it inherits."""
    memory_mb: Annotated[StrictInt, Field(ge=1, le=1 << 31)] | None = None
    """More than it inherits, never less."""
    secret_store: Annotated[StrictStr, Field(max_length=1000)] | None = None
    """The name of a store that comes before the inherited ones."""


class ForkSandbox(ForkCheckpoint):
    count: Annotated[StrictInt, Field(ge=1)] | None = None
    """How many, all of one instant; 1 if nothing is said."""
