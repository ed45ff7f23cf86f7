"""`…/diff`: what changed on a sandbox's disk. Not part of the published contract."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from opencomputer.wire.model import WireModel


class ChangeView(WireModel):
    """`kind` is added, changed or deleted; `size` is the new size in bytes, 0 for what is deleted."""

    path: str
    kind: str
    size: int
    is_directory: Annotated[bool, Field(serialization_alias="isDirectory")]


class DiffView(WireModel):
    changes: list[ChangeView]
