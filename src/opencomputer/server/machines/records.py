"""Process records between the contract's types and the guest's JSON. What comes from the guest is checked."""

from __future__ import annotations

from opencomputer.inside.guest import protocol
from opencomputer.inside.guest.protocol import JsonObject, ProtocolError
from opencomputer.server.contracts.machine import ExitStatus, ProcessKind, ProcessRecord, ProcessSpec


def spec_fields(spec: ProcessSpec) -> JsonObject:
    """The fields of a spawn request."""
    terminal = spec.terminal
    return {
        "id": spec.id,
        "kind": spec.kind.value,
        "argv": list(spec.argv),
        "environment": dict(spec.environment),
        "cwd": spec.cwd,
        "user": spec.user,
        "stdin": spec.stdin,
        "timeout_seconds": spec.timeout_seconds,
        "linger_seconds": spec.linger_seconds,
        "terminal": None if terminal is None else {"columns": terminal.columns, "rows": terminal.rows},
        "scrollback_bytes": spec.scrollback_bytes,
        "labels": dict(spec.labels),
    }


def parse_record(fields: JsonObject) -> ProcessRecord:
    """Raises ProtocolError."""
    exit = fields.get("exit")
    try:
        kind = ProcessKind(protocol.text(fields, "kind"))
    except ValueError as error:
        raise ProtocolError("unknown kind of process") from error
    return ProcessRecord(
        id=protocol.text(fields, "id"),
        kind=kind,
        argv=tuple(protocol.texts(fields, "argv")),
        started_at=protocol.number(fields, "started_at"),
        attached=protocol.integer(fields, "attached"),
        exit=None if exit is None else parse_exit(protocol.as_object(exit)),
        labels=protocol.text_map(fields, "labels"),
    )


def parse_exit(fields: JsonObject) -> ExitStatus:
    """Raises ProtocolError."""
    reason = protocol.optional_text(fields, "reason")
    if reason not in (None, "timeout", "disconnected", "killed"):
        raise ProtocolError("unknown reason of an exit")
    return ExitStatus(
        code=protocol.optional_integer(fields, "code", most=255),
        signal=protocol.optional_integer(fields, "signal", least=1, most=127),
        reason=reason,
        error=protocol.optional_text(fields, "error"),
    )
