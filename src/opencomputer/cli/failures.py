"""What a failed command says, and with which code it exits."""

from __future__ import annotations

from dataclasses import dataclass

import typer

LOCAL_FAILURE = 1
REFUSED = 3
CONFLICT = 4
SERVER_FAILURE = 5
INTERRUPTED = 130
LINK_LOST = 255

_CONFLICT_STATUS = 409


class CommandError(Exception):
    """A failure that a command explains itself."""

    def __init__(self, message: str, exit_code: int = LOCAL_FAILURE) -> None:
        self.exit_code = exit_code
        super().__init__(message)


@dataclass(frozen=True)
class Failure:
    """One line for the user, and the exit code."""

    message: str
    exit_code: int


def failure_of(error: BaseException) -> Failure | None:
    """What an exception means to the user; None for a fault of ours, which deserves its traceback."""
    match error:
        case CommandError():
            return Failure(str(error), error.exit_code)
        case typer.TyperException():
            return Failure(error.format_message(), LOCAL_FAILURE)
        case KeyboardInterrupt() | typer.Abort():
            return Failure("interrupted", INTERRUPTED)
        case _:
            return _failure_of_call(error)


def _failure_of_call(error: BaseException) -> Failure | None:
    import httpx

    from opencomputer.sdk.errors import (
        BuildFailedError,
        CheckpointFailedError,
        ExecFailedError,
        OpenComputerError,
        UnexpectedAnswerError,
    )

    match error:
        case OpenComputerError():
            return Failure(error.message, exit_code_of_status(error.status))
        case httpx.InvalidURL() | httpx.UnsupportedProtocol():
            return Failure(f"the server's address is not valid: {error}", LOCAL_FAILURE)
        case httpx.TransportError():
            return Failure(f"the server cannot be reached: {error or type(error).__name__}", LOCAL_FAILURE)
        case ValueError() if is_project_error(error):
            return Failure(str(error), LOCAL_FAILURE)
        case BuildFailedError() | CheckpointFailedError() | ExecFailedError() | UnexpectedAnswerError():
            return Failure(str(error), LOCAL_FAILURE)
        case _:
            return None


def is_project_error(error: BaseException) -> bool:
    """Whether a folder was no agent that can be deployed."""
    from opencomputer.sdk.durable.projects import ProjectError

    return isinstance(error, ProjectError)


def exit_code_of_status(status: int) -> int:
    """The exit code for an HTTP error status."""
    if status == _CONFLICT_STATUS:
        return CONFLICT
    return REFUSED if status < 500 else SERVER_FAILURE


def exit_code_of_process(code: int) -> int:
    """The exit code for a remote process's; an unknown one means that the link was lost."""
    return code if code >= 0 else LINK_LOST
