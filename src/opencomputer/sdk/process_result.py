"""What is known of programs: how one ended, and the line that lists one."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class ProcessResult:
    """How a command ended. Output that is not UTF-8 has its bad bytes replaced.

    `truncated` says that the command wrote more than the server keeps and the beginning is missing.
    """

    exit_code: int
    stdout: str
    stderr: str
    truncated: bool = False


@dataclass(frozen=True)
class ExecSessionInfo:
    """One entry of `exec.list()`. `exit_code` is None while the program runs."""

    session_id: str
    sandbox_id: str
    command: str
    args: list[str] = field(default_factory=list[str])
    running: bool = False
    exit_code: int | None = None
    started_at: str = ""
    attached_clients: int = 0
