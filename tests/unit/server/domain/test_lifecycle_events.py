"""What is told of a sandbox's life: each thing once, and nothing that nobody could see."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from opencomputer.server.domain.errors import InvalidInput
from opencomputer.server.domain.lifecycle_events import TYPES, LifecycleEvent, Move, told_of
from opencomputer.server.domain.lifecycle_webhooks import (
    SCHEDULE,
    Webhook,
    body_of,
    checked_headers,
    checked_types,
    headers_of,
    message_of,
    new_webhook_id,
    wants,
)
from opencomputer.server.domain.sandbox import TRANSITIONS, SandboxState, StopReason
from opencomputer.server.domain.webhooks.attempts import Attempt, DeliveryStatus, after
from opencomputer.server.domain.webhooks.signing import signatures
from opencomputer.wire.ids import EventId, OrgId, SandboxId
from tests.support import rows

ORG = OrgId("org")
EVENT = LifecycleEvent(
    EventId("evt_1"), "sandbox.stopped", rows.NOON, ORG, SandboxId("sb-1"), {"reason": "crash"}
)


def webhook(**changes: Any) -> Webhook:
    made = Webhook(
        id=new_webhook_id(),
        org_id=ORG,
        name=None,
        url="https://example.com",
        types=(),
        sandbox_id=None,
        enabled=True,
        headers={},
        secrets=(),
        idempotency_key=None,
        request_hash=None,
        created_at=rows.NOON,
        updated_at=rows.NOON,
    )
    return replace(made, **changes)


def move(before: SandboxState, after: SandboxState, **changes: Any) -> Move:
    return Move(rows.sandbox(ORG, id=SandboxId("sb-1"), state=after, **changes), before, rows.NOON)


def told(before: SandboxState, after: SandboxState, **changes: Any) -> list[tuple[str, dict[str, Any]]]:
    return [(each.type, dict(each.data)) for each in told_of(move(before, after, **changes))]


def test_a_new_sandbox_is_created_and_then_ready() -> None:
    born = (SandboxState.CREATING, SandboxState.RUNNING)
    assert told(*born) == [("sandbox.created", {"template": "base"}), ("sandbox.ready", {})]
    forked = told(*born, forked_from=SandboxId("sb-0"))
    assert forked[0] == ("sandbox.forked", {"parentId": "sb-0"})
    assert [type for type, _ in forked[1:]] == ["sandbox.created", "sandbox.ready"]


@pytest.mark.parametrize("reason", [StopReason.USER_REQUESTED, StopReason.CRASH])
def test_a_sandbox_that_was_there_stops_with_a_reason(reason: StopReason) -> None:
    for before in (SandboxState.RUNNING, SandboxState.HIBERNATED, SandboxState.RESTORING):
        found = told(before, SandboxState.STOPPED, stop_reason=reason)
        assert found == [("sandbox.stopped", {"reason": reason.value})]


def test_nothing_is_told_of_what_clients_cannot_see() -> None:
    """A create that failed, a sleep that did not come, a restore: nobody sees another state."""
    telling = {
        (before, after) for before, afters in TRANSITIONS.items() for after in afters if told(before, after)
    }
    stops = {
        (each, SandboxState.STOPPED)
        for each, afters in TRANSITIONS.items()
        if SandboxState.STOPPED in afters and each is not SandboxState.CREATING
    }
    assert telling - stops == {
        (SandboxState.CREATING, SandboxState.RUNNING),
        (SandboxState.HIBERNATING, SandboxState.HIBERNATED),
        (SandboxState.WAKING, SandboxState.RUNNING),
    }


def test_ids_follow_from_what_happened() -> None:
    born = (SandboxState.CREATING, SandboxState.RUNNING)
    ids = [[each.id for each in told_of(move(*born))] for _ in range(2)]
    assert ids[0] == ids[1]
    assert len(set(ids[0])) == 2
    sleeps = move(SandboxState.HIBERNATING, SandboxState.HIBERNATED)
    [first], [later] = told_of(sleeps), told_of(replace(sleeps, at=rows.at(1)))
    assert first.id != later.id


@pytest.mark.parametrize("pattern", [*TYPES, "sandbox.*", "sandbox.checkpoint.*", "sandbox.preview_url.*"])
def test_filters_are_names_or_beginnings(pattern: str) -> None:
    assert checked_types([pattern, pattern], "eventTypes") == (pattern,)
    assert any(wants(webhook(types=(pattern,)), each) for each in TYPES)


@pytest.mark.parametrize("pattern", ["sandbox.test", "sandbox.exploded", "turn.*", "sandbox*", "*", ""])
def test_a_filter_that_lets_nothing_through_is_refused(pattern: str) -> None:
    with pytest.raises(InvalidInput):
        checked_types([pattern], "eventTypes")


def test_only_what_was_asked_for_is_wanted() -> None:
    some = webhook(types=("sandbox.checkpoint.*", "sandbox.stopped"))
    assert [each for each in TYPES if wants(some, each)] == ["sandbox.stopped", "sandbox.checkpoint.created"]
    assert all(wants(webhook(), each) for each in TYPES)


@pytest.mark.parametrize(
    "headers",
    [
        {"svix-id": "x"},
        {"Webhook-Signature": "x"},
        {"Host": "x"},
        {"a b": "x"},
        {"X-A": "a\nb"},
        {"X-A": ""},
        {f"X-{number}": "x" for number in range(21)},
    ],
)
def test_headers_that_are_ours_or_none_are_refused(headers: dict[str, str]) -> None:
    with pytest.raises(InvalidInput):
        checked_headers(headers)


def test_what_is_sent_is_the_event_with_an_envelope() -> None:
    assert json.loads(body_of(EVENT)) == {
        "type": "sandbox.stopped",
        "sandboxId": "sb-1",
        "eventId": "evt_1",
        "event": {
            "id": "evt_1",
            "ts": "2026-01-01T12:00:00.000Z",
            "orgId": "org",
            "sandboxId": "sb-1",
            "type": "sandbox.stopped",
            "data": {"reason": "crash"},
        },
    }


def test_both_families_of_headers_are_signed_and_own_ones_go_along() -> None:
    there = webhook(headers={"X-Team": "a b"})
    message = message_of(there, EVENT)
    headers = headers_of(there, message, ["new", "old"], rows.NOON, b"{}")
    assert headers["X-Team"] == "a b"
    for name in ("id", "timestamp", "signature"):
        assert headers[f"svix-{name}"] == headers[f"webhook-{name}"]
    assert headers["svix-id"] == message.id == message_of(there, EVENT).id
    assert headers["svix-signature"] == signatures(["new", "old"], message.id, rows.NOON, b"{}")
    assert message_of(webhook(), EVENT).id != message.id


@pytest.mark.parametrize(
    ("secret", "signature"),
    [
        (
            "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=",
            "v1,cw5vtqAqPv9BiCA8StclBIW6njaYidVAIUnUSJF9Ey0=",
        ),
        ("testsecret!", "v1,HTvCw1b4C4k6CnD084oTHYaeBCGFTMjo1TNyDOT4G9I="),
    ],
)
def test_signatures_are_those_of_the_contract(secret: str, signature: str) -> None:
    at = rows.NOON.fromtimestamp(1700000000, rows.NOON.tzinfo)
    assert signatures([secret], "msg_1", at, b'{"type":"sandbox.stopped"}') == signature


def test_it_is_tried_for_a_day_and_whatever_is_answered() -> None:
    message, waits = message_of(webhook(), EVENT), list[float]()
    while message.due_at is not None:
        message = after(message, Attempt(rows.NOON, 410, "no"), SCHEDULE, 0.5)
        waits += [(message.due_at - rows.NOON).total_seconds()] if message.due_at else []
    assert waits == [5, 300, 1800, 7200, 18000, 36000, 36000]
    assert (message.status, message.attempts) == (DeliveryStatus.DEAD_LETTER, 8)


def test_to_one_that_is_switched_off_nothing_goes() -> None:
    message = message_of(webhook(enabled=False), EVENT)
    assert (message.status, message.due_at) == (DeliveryStatus.DEAD_LETTER, None)
    assert message.error == "the webhook was switched off"
