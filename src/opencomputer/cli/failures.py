"""What a failed command says, and with which code it exits."""

from __future__ import annotations

import errno
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typer import TyperException

    from opencomputer.sdk.errors import OpenComputerError

LOCAL_FAILURE = 1
REFUSED = 3
CONFLICT = 4
SERVER_FAILURE = 5
INTERRUPTED = 130
LINK_LOST = 255

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EIO)
_CONFLICT_STATUS = 409
_BEGIN_OF_ADDRESS = "it begins with http:// or https://; `oc config show` tells which one is used"
_CHECK_ADDRESS = "check the address: oc config show, oc config set api-url URL"


class CommandError(Exception):
    """A failure that a command explains itself. The hint says what to do next."""

    def __init__(self, message: str, exit_code: int = LOCAL_FAILURE, *, hint: str = "") -> None:
        self.exit_code = exit_code
        self.hint = hint
        super().__init__(message)


@dataclass(frozen=True)
class Failure:
    """One line for the user, the exit code, and perhaps another line that says what to do next."""

    message: str
    exit_code: int
    hint: str = ""


def failure_of(error: BaseException) -> Failure | None:
    """What an exception means to the user; None for a fault of ours, which deserves its traceback."""
    import typer

    match error:
        case CommandError():
            return Failure(str(error), error.exit_code, error.hint)
        case typer.TyperException():
            return Failure(error.format_message(), LOCAL_FAILURE, _help_for(error))
        case KeyboardInterrupt() | typer.Abort():
            return Failure("interrupted", INTERRUPTED)
        case _:
            return _failure_of_call(error)


def _help_for(error: TyperException) -> str:
    """Where the right use of the command that was named is described."""
    context: object = getattr(error, "ctx", None)
    path: object = getattr(context, "command_path", None)
    return f"{path} --help" if isinstance(path, str) else ""


def _failure_of_call(error: BaseException) -> Failure | None:
    from opencomputer.sdk.endpoint import InvalidKeyError
    from opencomputer.sdk.errors import (
        BuildFailedError,
        CheckpointFailedError,
        ExecFailedError,
        OpenComputerError,
        UnexpectedAnswerError,
    )
    from opencomputer.sdk.http import httpx
    from opencomputer.sdk.paths import NamelessError

    match error:
        case OpenComputerError():
            return _refused(error)
        case httpx.InvalidURL() | httpx.UnsupportedProtocol():
            return Failure(f"the server's address is not valid: {error}", LOCAL_FAILURE, _BEGIN_OF_ADDRESS)
        case httpx.TransportError():
            from opencomputer.cli.unreachable import explained

            reason = explained(error)
            return Failure(reason.message, LOCAL_FAILURE, reason.hint)
        case InvalidKeyError():
            return Failure(str(error), LOCAL_FAILURE, "`oc config show` tells where the key is from")
        case NamelessError():
            return Failure(str(error), LOCAL_FAILURE, "perhaps the variable that should hold it is empty")
        case UnicodeEncodeError():
            character = error.object[error.start : error.end]
            return Failure(f"{character!a} cannot be sent to a server", LOCAL_FAILURE)
        case UnexpectedAnswerError():
            return Failure(str(error), LOCAL_FAILURE, _CHECK_ADDRESS)
        case OSError() if error.filename is not None or error.errno in _NO_ROOM:
            subject = "the output cannot be written" if error.filename is None else error.filename
            return Failure(f"{subject}: {error.strerror}", LOCAL_FAILURE)
        case ValueError() if is_project_error(error):
            return Failure(str(error), LOCAL_FAILURE)
        case BuildFailedError() | CheckpointFailedError() | ExecFailedError():
            return Failure(str(error), LOCAL_FAILURE)
        case _:
            return None


def _refused(error: OpenComputerError) -> Failure:
    from opencomputer.cli.hints import Refusal, hint_for

    url, exit_code = error.request.url, exit_code_of_status(error.status)
    if not _is_ours(error):
        message = f"{url.scheme}://{url.netloc.decode()} answers {error.status}, but not as this server does"
        hint = "what stands before the server does not reach it" if error.status >= 500 else _CHECK_ADDRESS
        return Failure(message, exit_code, hint)
    refusal = Refusal(error.status, error.code, error.request.method, url.path, error.request_id)
    return Failure(error.message, exit_code, hint_for(refusal))


def _is_ours(error: OpenComputerError) -> bool:
    """Whether the answer has the shape that all errors of these servers have."""
    from opencomputer.sdk.http import httpx

    try:
        body: object = error.response.json()
    except (ValueError, httpx.ResponseNotRead):
        # Of streams only the message was kept.
        return bool(error.code)
    return isinstance(body, dict) and "error" in body


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
