"""One thing that was looked at, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Status = Literal["ok", "warn", "fail"]


@dataclass(frozen=True)
class Check:
    """One thing that was looked at. `fix` is empty where there is nothing to do."""

    name: str
    status: Status
    summary: str
    fix: str = ""
