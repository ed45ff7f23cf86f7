"""Signatures that others verify, and the times at which a delivery is tried again."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from standardwebhooks import Webhook

from opencomputer.sdk.durable.webhooks import key_of, verify_webhook
from opencomputer.server.domain.sessions.destinations import ATTEMPTS, SCHEDULE, Delivery
from opencomputer.server.domain.sessions.events import API, Event, Level
from opencomputer.server.domain.sessions.webhooks import signed_headers, webhook_body
from opencomputer.server.domain.webhooks.attempts import Attempt, DeliveryStatus, after
from opencomputer.server.domain.webhooks.signing import signing_key
from opencomputer.wire.ids import DeliveryId, DestinationId, EventId, OrgId, TurnId
from tests.support.durable import a_session

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SESSION = replace(a_session(OrgId("org")), metadata={"someKey": {"other_key": 1}, "x": None})
DELIVERY = Delivery(
    id=DeliveryId("dlv_1"),
    session_id=SESSION.id,
    destination_id=DestinationId("dst_1"),
    event_id=EventId("evt_1"),
    event_seq=3,
    status=DeliveryStatus.DELIVERING,
    attempts=0,
    budget=ATTEMPTS,
    due_at=NOW,
    last_attempt_at=None,
    response_code=None,
    error=None,
    created_at=NOW,
    updated_at=NOW,
)
EVENT = Event(
    id=EventId("evt_1"),
    session_id=SESSION.id,
    seq=3,
    at=NOW,
    type="user.message",
    level=Level.USER,
    body={"text": "\u00e9 \ud800", "raw": {"secret": 1}},
    actor=API,
    turn_id=TurnId("trn_1"),
    refs={"a_b": 1},
    source="http",
)


@pytest.mark.parametrize(
    ("secret", "key"),
    [
        ("whsec_" + base64.b64encode(b"0123456789abcdef01234567").decode(), b"0123456789abcdef01234567"),
        (base64.b64encode(b"ab").decode(), b"ab"),
        (base64.b64encode(b"ab").decode().rstrip("="), b"ab"),
        ("testsecret!", b"testsecret!"),
        ("whsec_not base64", b"whsec_not base64"),
        ("whsec_", b"whsec_"),
        ("a-_b", b"a-_b"),
        ("YWJ=", b"YWJ="),
        ("abcde", b"abcde"),
        ("h\u00e9", "h\u00e9".encode()),
        ("====", b"===="),
    ],
)
def test_a_key_is_what_verifiers_make_of_the_secret(secret: str, key: bytes) -> None:
    assert signing_key(secret) == key


@given(
    st.one_of(
        st.text(max_size=40).filter(lambda text: text.isprintable()),
        st.from_regex(r"(whsec_)?[A-Za-z0-9+/_-]{0,12}={0,3}", fullmatch=True),
        st.binary(max_size=30).map(lambda key: base64.b64encode(key).decode()),
    )
)
def test_our_own_client_makes_the_same_key_of_every_secret(secret: str) -> None:
    assert signing_key(secret) == key_of(secret)


def test_the_published_verifier_accepts_what_we_sign() -> None:
    secret = "whsec_" + base64.b64encode(b"k" * 32).decode()
    now = datetime.now(UTC)
    body = webhook_body(SESSION, EVENT, include_raw=False)
    headers = signed_headers(DELIVERY, [secret], now, body)
    assert Webhook(secret).verify(body, dict(headers))["eventId"] == "evt_1"
    with pytest.raises(Exception, match="No matching signature"):
        Webhook(secret).verify(body + b" ", dict(headers))


@pytest.mark.parametrize("secret", ["plain text", "whsec_" + base64.b64encode(b"k" * 32).decode()])
def test_a_secret_that_was_replaced_still_verifies_beside_the_new_one(secret: str) -> None:
    body = webhook_body(SESSION, EVENT, include_raw=True)
    headers = signed_headers(DELIVERY, ["new one", secret], NOW, body)
    assert headers["webhook-signature"].count("v1,") == 2
    for each in ("new one", secret):
        verified = verify_webhook(body, headers, each, now_seconds=NOW.timestamp())
        assert (verified.dedupe_id, verified.delivery_id) == ("evt_1", "dlv_1")


def test_without_a_secret_nothing_is_signed() -> None:
    headers = signed_headers(DELIVERY, [], NOW, b"{}")
    assert "webhook-signature" not in headers
    assert headers["webhook-id"] == "evt_1"
    assert headers["X-OC-Session-ID"] == SESSION.id


def test_the_body_is_the_event_and_the_sessions_metadata_untouched() -> None:
    whole = json.loads(webhook_body(SESSION, EVENT, include_raw=True))
    assert list(whole) == ["type", "sessionId", "eventId", "metadata", "event"]
    assert whole["metadata"] == {"someKey": {"other_key": 1}, "x": None}
    event = whole["event"]
    assert event == {
        "id": "evt_1",
        "seq": 3,
        "ts": "2026-01-01T00:00:00.000Z",
        "session": SESSION.id,
        "actor": {"id": "api", "type": "human"} if API.id == "api" else event["actor"],
        "type": "user.message",
        "level": "user",
        "body": {"text": "\u00e9 \ud800", "raw": {"secret": 1}},
        "turn_id": "trn_1",
        "refs": {"a_b": 1},
        "source": "http",
    }
    assert (
        json.loads(webhook_body(replace(SESSION, metadata=None), EVENT, include_raw=True))["metadata"] is None
    )


def test_what_was_sent_raw_goes_only_where_it_was_asked_for() -> None:
    event = json.loads(webhook_body(SESSION, EVENT, include_raw=False))["event"]
    assert event["body"] == {"text": "\u00e9 \ud800"}
    assert EVENT.body["raw"] == {"secret": 1}


def test_an_event_that_was_cut_says_where_the_whole_of_it_is() -> None:
    cut = replace(EVENT, content_ref="sha256:1", body_bytes=99)
    event = json.loads(webhook_body(SESSION, cut, include_raw=False))["event"]
    assert (event["content_ref"], event["body_truncated"], event["body_bytes"]) == ("sha256:1", True, 99)


def tried(count: int, chance: float = 0.5, **answer: float | int) -> list[Delivery]:
    code, retry_after = answer.get("code", 500), answer.get("retry_after")
    states = [DELIVERY]
    for _ in range(count):
        states.append(after(states[-1], Attempt(NOW, int(code), "no", retry_after), SCHEDULE, chance))
    return states[1:]


def test_eight_attempts_with_longer_and_longer_waits_and_then_it_is_given_up() -> None:
    states = tried(8)
    waits = [state.due_at - NOW if state.due_at else None for state in states]
    seconds = [5, 30, 120, 600, 1800, 7200, 21600]
    assert waits == [*(timedelta(seconds=each) for each in seconds), None]
    assert [state.status for state in states] == [DeliveryStatus.FAILED] * 7 + [DeliveryStatus.DEAD_LETTER]
    assert [state.attempts for state in states] == list(range(1, 9))


@pytest.mark.parametrize(("chance", "seconds"), [(0.0, 4), (1.0, 6)])
def test_waits_vary_by_a_fifth(chance: float, seconds: float) -> None:
    [state] = tried(1, chance)
    assert state.due_at == NOW + timedelta(seconds=seconds)


@pytest.mark.parametrize(("asked", "seconds"), [(60, 60), (1, 5), (10**9, 86400)])
def test_a_receiver_may_ask_for_more_time_and_never_for_less(asked: float, seconds: float) -> None:
    [state] = tried(1, retry_after=asked)
    assert state.due_at == NOW + timedelta(seconds=seconds)


def test_a_receiver_that_is_gone_is_not_asked_again() -> None:
    [state] = tried(1, code=410)
    assert (state.status, state.due_at, state.response_code) == (DeliveryStatus.DEAD_LETTER, None, 410)


@pytest.mark.parametrize("code", [200, 204, 299])
def test_any_success_is_one(code: int) -> None:
    [state] = tried(1, code=code)
    assert (state.status, state.due_at, state.error) == (DeliveryStatus.DELIVERED, None, None)


@pytest.mark.parametrize("code", [302, 404, 500])
def test_anything_else_is_none(code: int) -> None:
    assert tried(1, code=code)[0].status is DeliveryStatus.FAILED


def test_one_that_is_asked_for_again_starts_over_and_keeps_counting() -> None:
    given_up = tried(8)[-1]
    again = after(replace(given_up, budget=ATTEMPTS), Attempt(NOW, None, "no"), SCHEDULE, 0.5)
    assert (again.attempts, again.status) == (9, DeliveryStatus.FAILED)
    assert again.due_at == NOW + timedelta(seconds=5)
