"""Only webhooks that were signed with the secret, and just now, are believed."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from email.message import Message

import pytest

from opencomputer import WebhookVerificationError, verify_webhook
from opencomputer.durable import TurnCompleted
from opencomputer.sdk.durable.webhooks import key_of
from tests.unit.sdk.durable.answers import event_body

NOW = 1_760_000_000
SECRET = "whsec_" + base64.b64encode(b"twenty-four secret bytes").decode()
BODY = json.dumps(
    {
        "type": "turn.completed",
        "sessionId": "ses_1",
        "eventId": "evt_7",
        "metadata": {"order": 7},
        "event": event_body(7, "turn.completed", yield_reason="completed"),
    }
).encode()


def signed(body: bytes, secret: str = SECRET, *, at: int = NOW, id: str = "evt_7") -> dict[str, str]:
    signature = hmac.digest(key_of(secret), f"{id}.{at}.".encode() + body, hashlib.sha256)
    return {
        "Webhook-Id": id,
        "webhook-timestamp": str(at),
        "webhook-signature": f"v1,{base64.b64encode(signature).decode()}",
        "X-OC-Delivery-ID": "dlv_1",
    }


def test_a_signed_webhook_is_read() -> None:
    delivery = verify_webhook(BODY, signed(BODY), SECRET, now_seconds=NOW)
    assert (delivery.type, delivery.session_id, delivery.event_id) == ("turn.completed", "ses_1", "evt_7")
    assert (delivery.dedupe_id, delivery.delivery_id) == ("evt_7", "dlv_1")
    assert delivery.metadata == {"order": 7}
    assert isinstance(delivery.event, TurnCompleted)
    assert delivery.event.seq == 7


def test_text_and_lists_of_headers_are_as_good() -> None:
    headers = list(signed(BODY).items())
    assert verify_webhook(BODY.decode(), headers, SECRET, now_seconds=NOW).session_id == "ses_1"


def test_the_example_of_the_standard_verifies() -> None:
    headers = {
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }
    secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    assert verify_webhook('{"test": 2432232314}', headers, secret, now_seconds=1614265330).raw == {
        "test": 2432232314
    }


@pytest.mark.parametrize("shift", [-301, 301])
def test_old_and_early_ones_are_refused(shift: int) -> None:
    with pytest.raises(WebhookVerificationError, match="too far"):
        verify_webhook(BODY, signed(BODY, at=NOW + shift), SECRET, now_seconds=NOW)
    verify_webhook(BODY, signed(BODY, at=NOW + shift), SECRET, now_seconds=NOW, tolerance_seconds=301)


@pytest.mark.parametrize("stamp", ["", "now", "1e9", "-1", "１７６００００００００", "nan"])
def test_times_that_are_none_are_refused(stamp: str) -> None:
    with pytest.raises(WebhookVerificationError):
        verify_webhook(BODY, signed(BODY) | {"webhook-timestamp": stamp}, SECRET, now_seconds=NOW)


@pytest.mark.parametrize("missing", ["Webhook-Id", "webhook-timestamp", "webhook-signature"])
def test_a_missing_header_is_refused(missing: str) -> None:
    headers = {name: value for name, value in signed(BODY).items() if name != missing}
    with pytest.raises(WebhookVerificationError, match="must all be there"):
        verify_webhook(BODY, headers, SECRET, now_seconds=NOW)


def test_another_body_secret_or_id_is_refused() -> None:
    for body, headers, secret in [
        (BODY + b" ", signed(BODY), SECRET),
        (BODY, signed(BODY), SECRET + "x"),
        (BODY, signed(BODY) | {"Webhook-Id": "evt_8"}, SECRET),
        (BODY, signed(BODY) | {"webhook-signature": "v1,é"}, SECRET),
        (BODY, signed(BODY) | {"webhook-signature": signed(BODY)["webhook-signature"][3:]}, SECRET),
    ]:
        with pytest.raises(WebhookVerificationError, match="no signature"):
            verify_webhook(body, headers, secret, now_seconds=NOW)


def test_one_of_several_signatures_is_enough() -> None:
    headers = signed(BODY)
    headers["webhook-signature"] = f"v2,abc v1,c29tZXRoaW5n {headers['webhook-signature']}"
    assert verify_webhook(BODY, headers, SECRET, now_seconds=NOW).event_id == "evt_7"


def test_where_both_families_of_names_are_there_one_counts() -> None:
    older = {
        name.lower().replace("webhook-", "svix-"): text for name, text in signed(BODY, id="msg_1").items()
    }
    headers = {**signed(BODY), **older}
    assert verify_webhook(BODY, headers, SECRET, now_seconds=NOW).dedupe_id == "msg_1"
    with pytest.raises(WebhookVerificationError):
        verify_webhook(BODY, headers | {"svix-signature": "v1,x"}, SECRET, now_seconds=NOW)


def test_a_sandbox_s_webhook_comes_under_the_older_names() -> None:
    body = b'{"type": "sandbox.created", "sandboxId": "sb-1"}'
    names = {
        "Webhook-Id": "svix-id",
        "webhook-timestamp": "svix-timestamp",
        "webhook-signature": "svix-signature",
    }
    headers = {names[name]: value for name, value in signed(body, id="msg_1").items() if name in names}
    delivery = verify_webhook(body, headers, SECRET, now_seconds=NOW)
    assert (delivery.sandbox_id, delivery.delivery_id, delivery.dedupe_id) == ("sb-1", "msg_1", "msg_1")
    assert delivery.event is None


def test_a_signed_body_that_is_no_webhook_is_refused() -> None:
    for body in (b"[]", b"no json", b'{"event": {"seq": 1}}', b"\xff"):
        with pytest.raises(WebhookVerificationError, match="no webhook"):
            verify_webhook(body, signed(body), SECRET, now_seconds=NOW)


@pytest.mark.parametrize(
    ("secret", "key"),
    [
        ("whsec_YWJj", b"abc"),
        ("YWJj", b"abc"),
        ("YWI=", b"ab"),
        ("YWI", b"ab"),
        ("whsec_plain secret", b"whsec_plain secret"),
        ("a-b_", b"a-b_"),
        ("YWJ", b"YWJ"),
        ("YWJj=", b"YWJj="),
        ("whsec_", b"whsec_"),
        ("A", b"A"),
        ("=", b"="),
    ],
)
def test_keys_are_base64_where_that_is_exact_and_else_the_secret_itself(secret: str, key: bytes) -> None:
    assert key_of(secret) == key


def test_headers_are_taken_as_frameworks_have_them() -> None:
    """Those of the standard library's server are no mapping, those of ASGI are bytes."""
    given = signed(BODY)
    message = Message()
    for name, value in given.items():
        message[name] = value
    asgi = [(name.lower().encode(), value.encode()) for name, value in given.items()]
    for headers in (message, asgi):
        assert verify_webhook(BODY, headers, SECRET, now_seconds=NOW).delivery_id == "dlv_1"


@pytest.mark.parametrize("secret", ["", "whsec_"])
def test_without_a_secret_nothing_is_believed(secret: str) -> None:
    """Anybody can sign with none."""
    with pytest.raises(WebhookVerificationError, match="no secret"):
        verify_webhook(BODY, signed(BODY, secret), secret, now_seconds=NOW)
