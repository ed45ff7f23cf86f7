"""The errors of this SDK. What a server refuses is an `OpenComputerError`, told apart by code and status.

Failures below HTTP stay what httpx raises (`httpx.TransportError` and its kinds), for sockets as well.
"""

from __future__ import annotations

from typing import cast

from opencomputer.sdk.http import httpx


class OpenComputerError(httpx.HTTPStatusError):
    """The server answered a request with an error.

    `message` is the server's own text, `code` its stable word for the reason ("" when it names none), and
    `param` the part of the request that it is about, where durable agents and sessions name one.
    """

    def __init__(self, message: str, *, response: httpx.Response, code: str = "") -> None:
        self.message = message
        self.code = code
        details = _details(response)
        self.param = details.get("param")
        self.type = details.get("type", code)
        self.status = response.status_code
        self.request_id = response.headers.get("x-request-id", "") or details.get("request_id", "")
        self.retry_after_seconds = retry_after_seconds(response.headers)
        request = response.request
        super().__init__(
            f"{message} ({response.status_code} for {request.method} {request.url.path})",
            request=request,
            response=response,
        )


class ValidationError(OpenComputerError):
    """The request is not valid."""


class AuthError(OpenComputerError):
    """The API key is missing, unknown or revoked, or does not permit this."""


class PlanLimitError(OpenComputerError):
    """The organisation's plan does not include this."""


class ScalingLockedError(AuthError):
    """The size of the sandbox is locked; `set_scaling_lock(False)` unlocks it."""

    code = "scaling_locked"


class SandboxFamilyLimitError(AuthError):
    """Sandboxes of this family cannot change their size."""

    code = "sandbox_family_scale_disabled"


class NotFoundError(OpenComputerError):
    """There is no such thing, or it belongs to another organisation."""


class ConflictError(OpenComputerError):
    """The present state does not allow this, or somebody else changes it right now."""


class SandboxStoppedError(OpenComputerError):
    """The sandbox was killed or its machine has ended; it cannot come back."""


class RateLimitError(OpenComputerError):
    """Too many requests or sandboxes; `retry_after_seconds` says when to try again, if the server knows."""

    @property
    def retry_after(self) -> float | None:
        """The same as `retry_after_seconds`."""
        return self.retry_after_seconds


class UnavailableError(OpenComputerError):
    """The server is not ready or has no capacity now; trying again later is right."""


class NotSupportedError(OpenComputerError):
    """This server does not offer that."""


class ExecTimeoutError(TimeoutError):
    """The caller's own deadline passed. The command may go on in the sandbox.

    `exec_id` names the command, or is "" when the server had not answered yet.
    """

    def __init__(self, exec_id: str, seconds: float) -> None:
        self.exec_id = exec_id
        super().__init__(f"the command did not finish within {seconds:g} s; it may still be running")


class CheckpointFailedError(RuntimeError):
    """The checkpoint could not be finished. `reason` is the server's own text; the sandbox is unharmed."""

    def __init__(self, checkpoint_id: str, reason: str) -> None:
        self.checkpoint_id = checkpoint_id
        self.reason = reason
        super().__init__(f"checkpoint {checkpoint_id} failed: {reason or 'the server gave no reason'}")


class ExecFailedError(RuntimeError):
    """The command could not be started at all."""


class BuildFailedError(RuntimeError):
    """An image could not be built. `reason` is the server's own text: which step failed, and what it said."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(f"Build failed: {reason}")


class OperationFailedError(RuntimeError):
    """A change of a hosted agent failed, in `phase`, or was canceled. `reason` is the server's own text."""

    def __init__(self, operation_id: str, phase: str, reason: str) -> None:
        self.operation_id = operation_id
        self.phase = phase
        self.reason = reason
        super().__init__(
            f"operation {operation_id} failed in {phase}: {reason or 'the server gave no reason'}"
        )


class ClientClosedError(RuntimeError):
    """The object was closed, by `close`, `kill` or the end of its `with` block, and does nothing any more."""

    def __init__(self) -> None:
        super().__init__("this was closed, by close(), kill() or the end of its block; connect to it again")


class AnswerLostError(httpx.ReadError):
    """The connection was lost in the middle of an answer."""


class UnexpectedAnswerError(RuntimeError):
    """The answer does not have the shape that the API promises: something else than a server is answering."""


class ShellBusyError(Exception):
    """The shell is still running a command; it runs one at a time."""

    def __init__(self) -> None:
        super().__init__("the shell is already running a command; it runs one at a time")


class ShellClosedError(Exception):
    """The shell has ended. `exit_code` is its exit code, -1 when it was closed or the link to it was lost."""

    def __init__(self, exit_code: int) -> None:
        self.exit_code = exit_code
        reason = "" if exit_code < 0 else f": it exited with code {exit_code}"
        super().__init__(f"the shell is closed{reason}")


_BY_CODE: dict[str, type[OpenComputerError]] = {
    ScalingLockedError.code: ScalingLockedError,
    SandboxFamilyLimitError.code: SandboxFamilyLimitError,
    "sandbox_stopped": SandboxStoppedError,
    "machine_lost": SandboxStoppedError,
    "not_supported": NotSupportedError,
    "concurrency_limit": RateLimitError,
    "no_capacity": UnavailableError,
    "not_ready": UnavailableError,
    "host_disk_full": UnavailableError,
}

_BY_STATUS: dict[int, type[OpenComputerError]] = {
    400: ValidationError,
    401: AuthError,
    402: PlanLimitError,
    403: AuthError,
    404: NotFoundError,
    409: ConflictError,
    410: SandboxStoppedError,
    422: ValidationError,
    429: RateLimitError,
    501: NotSupportedError,
    502: UnavailableError,
    503: UnavailableError,
    504: UnavailableError,
}


def error_from(response: httpx.Response) -> OpenComputerError:
    """The error that a response with an error status stands for. Its body must have been read."""
    message, code = _message_and_code(response)
    kind = _BY_CODE.get(code) or _BY_STATUS.get(response.status_code) or OpenComputerError
    return kind(message, response=response, code=code)


def retry_after_seconds(headers: httpx.Headers) -> float | None:
    """The server's `Retry-After` in seconds, or None. Dates, which no server here sends, count as absent."""
    try:
        seconds = float(headers.get("retry-after", ""))
    except ValueError:
        return None
    return seconds if 0 <= seconds < float("inf") else None


def _details(response: httpx.Response) -> dict[str, str]:
    """The texts of a structured error, as durable agents and sessions have it."""
    try:
        body: object = response.json()
    except (ValueError, httpx.ResponseNotRead):
        return {}
    error = cast("dict[str, object]", body).get("error") if isinstance(body, dict) else None
    details = cast("dict[str, object]", error) if isinstance(error, dict) else {}
    return {name: value for name, value in details.items() if isinstance(value, str)}


def _message_and_code(response: httpx.Response) -> tuple[str, str]:
    # A page is from something between, and made for eyes.
    is_page = "html" in response.headers.get("content-type", "")
    said = "" if is_page else response.text.strip()[:500]
    fallback = said or response.reason_phrase or "the server gave no reason"
    try:
        body: object = response.json()
    except ValueError:
        return fallback, ""
    match body:
        case {"error": str(message), "code": str(code)}:
            return message, code
        case {"error": {"message": str(message), "code": str(code)}}:
            return message, code
        case {"error": {"message": str(message), "type": str(code)}}:
            return message, code
        case {"error": str(message)} | {"error": {"message": str(message)}}:
            return message, ""
        case _:
            return fallback, ""
