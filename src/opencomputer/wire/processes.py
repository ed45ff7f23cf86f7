"""`…/exec`: one-shot commands and exec sessions (sandbox-wire.md section 5)."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import Field, StrictInt, StrictStr

from opencomputer.wire.model import WireModel
from opencomputer.wire.sandboxes import MAX_SECONDS, EnvironmentMap

Seconds = Annotated[StrictInt, Field(ge=0, le=MAX_SECONDS)]


class Command(WireModel):
    """What to run. Without `args`, `cmd` may be a shell line."""

    cmd: Annotated[StrictStr, Field(min_length=1)]
    args: list[StrictStr] | None = None
    envs: EnvironmentMap | None = None
    cwd: StrictStr | None = None


class RunCommand(Command):
    timeout: Seconds | None = 60


class StartSession(Command):
    timeout: Seconds | None = None
    max_run_after_disconnect: Seconds | None = None


class CommandResult(WireModel):
    """How a one-shot command ended. The optional fields appear only when they say something."""

    exit_code: int
    stdout: str
    stderr: str
    signal: str | None = None
    reason: str | None = None
    truncated: bool | None = None


class CommandAccepted(WireModel):
    exec_id: str
    running: bool = True
    started_at: datetime


class CommandProgress(WireModel):
    running: bool
    exit_code: int | None = None
    stdout: str
    stderr: str
    error: str | None = None
    signal: str | None = None
    reason: str | None = None
    truncated: bool | None = None


class SessionView(WireModel):
    session_id: str
    sandbox_id: str
    command: str
    args: list[str]
    running: bool
    exit_code: int | None = None
    started_at: datetime
    attached_clients: int


class Signal(WireModel):
    signal: Annotated[StrictInt, Field(ge=0, le=64)] = 0


class CreateTerminal(WireModel):
    columns: Annotated[StrictInt, Field(ge=0, le=65535)] = 0
    rows: Annotated[StrictInt, Field(ge=0, le=65535)] = 0
    shell: StrictStr | None = None


class ResizeTerminal(WireModel):
    columns: Annotated[StrictInt, Field(ge=1, le=65535)]
    rows: Annotated[StrictInt, Field(ge=1, le=65535)]


class TerminalView(WireModel):
    session_id: str
    sandbox_id: str
