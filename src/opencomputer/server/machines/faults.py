"""The one table from the guest's error codes to the errors of the domain."""

from __future__ import annotations

from opencomputer.inside.guest import protocol
from opencomputer.inside.guest.protocol import JsonObject, ProtocolError
from opencomputer.server.domain.errors import (
    Conflict,
    DiskFull,
    FileConflict,
    FileForbidden,
    FileMissing,
    GuestFault,
    InvalidInput,
    NotADirectory,
    NotAFile,
    NotFound,
    NothingListens,
    NotReady,
    OpenComputerError,
    ProgramFault,
)

ERRORS: dict[str, type[OpenComputerError]] = {
    protocol.INVALID: InvalidInput,
    protocol.NOT_FOUND: NotFound,
    protocol.CONFLICT: Conflict,
    protocol.FAILED: GuestFault,
    protocol.BUSY: NotReady,
    protocol.INTERRUPTED: GuestFault,
    protocol.FILE_MISSING: FileMissing,
    protocol.NOT_A_FILE: NotAFile,
    protocol.NOT_A_DIRECTORY: NotADirectory,
    protocol.FILE_CONFLICT: FileConflict,
    protocol.FILE_FORBIDDEN: FileForbidden,
    protocol.DISK_FULL: DiskFull,
    protocol.REFUSED: NothingListens,
    protocol.BROKEN: ProgramFault,
}
_MOST_MESSAGE = 500


def error_in(fields: JsonObject) -> OpenComputerError | None:
    """The error that a response or an end carries, if it does. The message is the guest's, cut short."""
    if fields.get("error") is None:
        return None
    try:
        error = protocol.as_object(fields["error"])
        code = protocol.text(error, "code")
        message = protocol.text(error, "message")
    except ProtocolError:
        return GuestFault("the guest reported an error that cannot be read")
    printable = "".join(letter for letter in message[:_MOST_MESSAGE] if letter.isprintable())
    return ERRORS.get(code, GuestFault)(printable or None)


def result_in(fields: JsonObject) -> JsonObject:
    """The result of a response. Raises the error it carries instead, or GuestFault for neither."""
    error = error_in(fields)
    if error is not None:
        raise error
    try:
        return protocol.as_object(fields.get("result"))
    except ProtocolError as problem:
        raise GuestFault("the guest's answer cannot be read") from problem
