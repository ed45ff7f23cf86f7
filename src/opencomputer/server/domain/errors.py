"""The one tree of errors that services raise. Each class has a stable code; the docstring is its message.

`http/errors.py` holds the one table from these classes to HTTP statuses.
"""

from __future__ import annotations

from collections.abc import Mapping

Detail = str | int | bool | Mapping[str, str] | None


class OpenComputerError(Exception):
    """Something went wrong on the server."""

    code = "internal"
    retryable = False
    retry_after_seconds: int | None = None

    def __init__(self, message: str | None = None, **details: Detail) -> None:
        self.message = message or (type(self).__doc__ or "").strip().splitlines()[0]
        self.details: Mapping[str, Detail] = details
        super().__init__(self.message)


class InvalidInput(OpenComputerError):
    """The request is not valid."""

    code = "invalid_request"


class Unauthenticated(OpenComputerError):
    """A valid API key or sandbox token is required."""

    code = "unauthorized"


class PreviewLocked(Unauthenticated):
    """This preview needs its token: Authorization: Bearer, or X-OC-Preview-Token."""

    code = "preview_unauthorized"


class GrantInvalid(Unauthenticated):
    """This link to a preview has expired, was revoked, or is not for this preview."""

    code = "preview_grant_invalid"


class Forbidden(OpenComputerError):
    """This credential does not permit that."""

    code = "forbidden"


class AuthorizationExpired(InvalidInput):
    """This login has expired, was used already, or never was; start another."""

    code = "authorization_expired"


class AuthorizationDenied(Forbidden):
    """This login was denied."""

    code = "authorization_denied"


class RateLimited(OpenComputerError):
    """Too many attempts; wait some minutes."""

    code = "rate_limited"
    retryable = True
    retry_after_seconds = 60


class ScalingLocked(Forbidden):
    """The size of this sandbox is locked."""

    code = "scaling_locked"


class PlanLimit(OpenComputerError):
    """The organisation's plan does not include this."""

    code = "plan_limit"


class NotFound(OpenComputerError):
    """There is no such resource."""

    code = "not_found"


class Gone(OpenComputerError):
    """The sandbox is stopped."""

    code = "sandbox_stopped"


class Conflict(OpenComputerError):
    """The resource is in a state that does not allow this."""

    code = "conflict"


class OperationInProgress(Conflict):
    """Another operation on this sandbox is in progress; try again shortly."""

    code = "operation_in_progress"
    retryable = True


class OomFloor(Conflict):
    """The sandbox uses more memory than that."""

    code = "oom_floor"


class IdempotencyMismatch(Conflict):
    """This idempotency key was used with a different request."""

    code = "idempotency_mismatch"


class ConcurrencyLimit(OpenComputerError):
    """The organisation's limit of running sandboxes is reached."""

    code = "concurrency_limit"
    retryable = True
    retry_after_seconds = 5


class NoCapacity(OpenComputerError):
    """No capacity for another sandbox right now; try again shortly."""

    code = "no_capacity"
    retryable = True
    retry_after_seconds = 2


class NotReady(OpenComputerError):
    """The server or the sandbox is not ready yet; try again shortly."""

    code = "not_ready"
    retryable = True
    retry_after_seconds = 1


class LogsOff(OpenComputerError):
    """This server keeps no logs of sandboxes."""

    code = "logs_off"


class Interrupted(NotReady):
    """The sandbox got another machine meanwhile; try again."""

    code = "interrupted"


class NotSupported(OpenComputerError):
    """This server does not offer that."""

    code = "not_supported"


class StartFailed(OpenComputerError):
    """The machine could not be started."""

    code = "start_failed"


class MachineLost(OpenComputerError):
    """The sandbox's machine has ended."""

    code = "machine_lost"


class BuildFailed(InvalidInput):
    """The image could not be built."""

    code = "build_failed"


class SnapshotRefused(OpenComputerError):
    """The machine cannot be saved right now."""

    code = "snapshot_refused"


class RangeNotSatisfiable(OpenComputerError):
    """The file has no byte of the part that was asked for."""

    code = "range_not_satisfiable"


class GuestFault(OpenComputerError):
    """The machine's guest broke the protocol or did not answer in time."""

    code = "guest_fault"


class NothingListens(OpenComputerError):
    """No program of the sandbox listens on this port."""

    code = "nothing_listening"


class ProgramFault(OpenComputerError):
    """The sandbox's program broke off, or what it sent cannot be read."""

    code = "program_fault"


class ProgramSilent(OpenComputerError):
    """The sandbox's program did not answer in time."""

    code = "program_silent"


class FileMissing(NotFound):
    """There is no such file or directory."""

    code = "file_not_found"


class NotAFile(InvalidInput):
    """The path is not a regular file."""

    code = "not_a_file"


class NotADirectory(InvalidInput):
    """The path is not a directory."""

    code = "not_a_directory"


class FileConflict(Conflict):
    """A file is in the way."""

    code = "file_conflict"


class FileForbidden(Forbidden):
    """The file cannot be accessed."""

    code = "file_forbidden"


class DiskFull(OpenComputerError):
    """The sandbox's disk is full."""

    code = "disk_full"


class ArtefactMissing(OpenComputerError):
    """A stored layer or memory image is missing."""

    code = "artefact_missing"


class ArtefactDamaged(OpenComputerError):
    """A stored layer or memory image is damaged."""

    code = "artefact_damaged"


class HostDiskFull(OpenComputerError):
    """The server has no room on its disk for that."""

    code = "host_disk_full"
    retryable = True
    retry_after_seconds = 30


class SecretUnreadable(OpenComputerError):
    """A secret cannot be decrypted with this server's keyring."""

    code = "secret_unreadable"
