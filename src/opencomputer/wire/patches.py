"""`…/patches`: scripts that sandboxes of a checkpoint run once (sandbox-wire.md section 11.7)."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import AfterValidator, Field, StrictStr
from pydantic_core import PydanticCustomError

from opencomputer.wire.model import WireModel

MAX_SCRIPT_BYTES = 120 * 1024
"""A script travels as one argument of a program; Linux takes no longer ones than 128 KiB."""


def _runnable(script: str) -> str:
    if not script.strip():
        raise PydanticCustomError("script", "must not be empty")
    if "\0" in script:
        raise PydanticCustomError("script", "must not contain NUL")
    if len(script.encode(errors="replace")) > MAX_SCRIPT_BYTES:
        raise PydanticCustomError("script", "must be at most {limit} bytes", {"limit": MAX_SCRIPT_BYTES})
    return script


class CreatePatch(WireModel):
    script: Annotated[StrictStr, AfterValidator(_runnable)]
    description: Annotated[StrictStr, Field(max_length=1000)] | None = None


class PatchView(WireModel):
    id: str
    checkpoint_id: str
    sequence: int
    script: str
    description: str | None = None
    strategy: str = "on_wake"
    created_at: datetime


class PatchAdded(WireModel):
    """The answer to create is wrapped; lists are not."""

    patch: PatchView
