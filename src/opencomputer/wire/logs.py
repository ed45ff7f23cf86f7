"""`…/logs`: what programs of a sandbox write, line by line (sandbox-wire.md section 1.9)."""

from __future__ import annotations

from typing import Literal

from pydantic import ConfigDict, Field

from opencomputer.wire.model import Moment, PlainModel, optional

DEFAULT_LOG_LIMIT = 1000
MAX_LOG_LIMIT = 10_000
LOG_END = "end"
"""The event that says that nothing comes any more."""

Source = Literal["var_log", "exec_stdout", "exec_stderr", "agent"]


class LogEvent(PlainModel):
    """One line. `command` is a program, `argv` its arguments. The last line of a command has its `exit_code`.

    `lost`: how many lines before this one could not be kept, at least.
    """

    model_config = ConfigDict(extra="ignore", serialize_by_alias=True, populate_by_name=True)

    time: Moment = Field(alias="_time")
    source: Source
    line: str
    path: str | None = optional()
    exec_id: str | None = optional()
    command: str | None = optional()
    argv: list[str] | None = optional()
    exit_code: int | None = optional()
    lost: int | None = optional()
