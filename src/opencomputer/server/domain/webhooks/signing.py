"""Signatures by the rules of Standard Webhooks, and the secrets they are made with."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import secrets
from collections.abc import Sequence
from datetime import datetime, timedelta

from opencomputer.server.domain.secrets import Ciphertext

ROTATION = timedelta(hours=24)
"""For how long a secret goes on signing beside the one that replaced it."""

MOST_SECRETS = 4
"""That sign at the same time."""

SealedSecrets = tuple[tuple[Ciphertext, datetime | None], ...]
"""What a destination signs with, newest first, each until the time beside it; None is for good."""

_PREFIX = "whsec_"
_BASE64 = re.compile(r"[A-Za-z0-9+/]+")
_NEW_BYTES = 32


def new_secret() -> str:
    return _PREFIX + base64.b64encode(secrets.token_bytes(_NEW_BYTES)).decode()


def signing_key(secret: str) -> bytes:
    """The key that verifiers derive from a secret: what it is in base64, otherwise all of it as it is."""
    bare = secret.removeprefix(_PREFIX)
    digits = bare.rstrip("=")
    padding = len(bare) - len(digits)
    if _BASE64.fullmatch(digits) and (padding == 0 or (padding <= 2 and len(bare) % 4 == 0)):
        try:
            key = base64.b64decode(digits + "=" * (-len(digits) % 4), validate=True)
        except binascii.Error:
            return secret.encode()
        if key and base64.b64encode(key).decode().rstrip("=") == digits:
            return key
    return secret.encode()


def stamp_of(at: datetime) -> str:
    """A time as it is signed: whole seconds."""
    return str(int(at.timestamp()))


def signatures(secrets: Sequence[str], message_id: str, at: datetime, body: bytes) -> str:
    """One for each secret, in their order."""
    signed = f"{message_id}.{stamp_of(at)}.".encode() + body
    return " ".join(f"v1,{_signature(secret, signed)}" for secret in secrets)


def _signature(secret: str, signed: bytes) -> str:
    return base64.b64encode(hmac.digest(signing_key(secret), signed, hashlib.sha256)).decode()


def usable(sealed: SealedSecrets, at: datetime) -> SealedSecrets:
    """Those that still sign."""
    return tuple((secret, until) for secret, until in sealed if until is None or until > at)


def rotated(sealed: SealedSecrets, new: Ciphertext, at: datetime) -> SealedSecrets:
    """With a new one, beside which the others sign for a day yet."""
    end = at + ROTATION
    ending = [(secret, end if until is None else until) for secret, until in usable(sealed, at)]
    return ((new, None), *ending[: MOST_SECRETS - 1])
