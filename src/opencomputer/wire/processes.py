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
    """The program; without `args` it may be a shell line."""
    args: list[StrictStr] | None = None
    """Its arguments."""
    envs: EnvironmentMap | None = None
    """Variables besides those of the sandbox."""
    cwd: StrictStr | None = None
    """Where it starts; home if nothing is said."""


class RunCommand(Command):
    timeout: Seconds | None = 60
    """Seconds until it is killed."""


class StartSession(Command):
    timeout: Seconds | None = None
    """Seconds until it is killed; without it, never."""
    max_run_after_disconnect: Seconds | None = None
    """Seconds that it may go on while nobody is attached; without it, for ever."""


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


class ListedTerminal(TerminalView):
    """One of a sandbox's terminals. Not part of the published contract."""

    command: str
    running: bool
    started_at: datetime
    attached_clients: int
