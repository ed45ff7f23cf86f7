"""What a request for a command becomes, and how a repeated one is told from another one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from opencomputer.server.contracts.machine import ProcessKind, ProcessRecord, ProcessSpec
from opencomputer.server.domain.errors import IdempotencyMismatch
from opencomputer.server.services.sandboxes.commands import CommandRequest, check_same_request
from opencomputer.wire.ids import SandboxId

SANDBOX = SandboxId("sb-00000001")
REQUEST = CommandRequest("make", ["all"], {"A": "1"}, cwd="/src", timeout_seconds=60, idempotency_key="key")


def spec_of(request: CommandRequest) -> ProcessSpec:
    return request.process(ProcessKind.RUN, SANDBOX)


def record_of(spec: ProcessSpec, argv: tuple[str, ...]) -> ProcessRecord:
    return ProcessRecord(spec.id, spec.kind, argv, 0.0, 0, None, spec.labels)


def test_a_long_command_is_taken_for_itself() -> None:
    """A machine keeps only the beginning of long arguments in its records."""
    for request in (REQUEST, replace(REQUEST, idempotency_key=None)):
        spec = spec_of(replace(request, arguments=["x" * 100_000]))
        check_same_request(spec, record_of(spec, ("make", "xxx…")))


@pytest.mark.parametrize(
    "other",
    [
        replace(REQUEST, command="ninja"),
        replace(REQUEST, arguments=["clean"]),
        replace(REQUEST, environment={"A": "2"}),
        replace(REQUEST, cwd="/other"),
        replace(REQUEST, timeout_seconds=61),
        replace(REQUEST, linger_seconds=5),
    ],
)
def test_a_key_names_one_request_in_all_its_parts(other: CommandRequest) -> None:
    """Anything else under the same key is refused, and starts nothing: it has the same id."""
    started, repeated = spec_of(REQUEST), spec_of(other)
    assert started.id == repeated.id
    with pytest.raises(IdempotencyMismatch):
        check_same_request(repeated, record_of(started, started.argv))


def test_a_repeated_request_is_the_same_whatever_the_order_of_its_variables() -> None:
    """Clients need not keep the order of a JSON object."""
    one = replace(REQUEST, environment={"A": "1", "B": "2"})
    two = replace(REQUEST, environment={"B": "2", "A": "1"})
    check_same_request(spec_of(two), record_of(spec_of(one), spec_of(one).argv))
