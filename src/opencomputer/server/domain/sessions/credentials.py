"""Keys for models: what an organisation keeps of them, and which one a session uses (section 3.11)."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from opencomputer.server.domain.errors import InvalidInput
from opencomputer.server.domain.secrets import Ciphertext
from opencomputer.server.domain.sessions.errors import (
    CredentialMismatch,
    ManagedUnavailable,
    NoCredential,
    Unsupported,
)
from opencomputer.server.domain.sessions.session import MANAGED
from opencomputer.wire.ids import ModelCredentialId, OrgId

PROVIDERS = ("anthropic", "openai")
DEFAULT_PROVIDER = "anthropic"
KEYLESS = frozenset({"scripted"})
"""Providers with no model behind them: nobody needs a key for those."""
MAX_KEY_LENGTH = 1024
_SHOWN = 4

_KEY = re.compile(r"[\x21-\x7e]+")
_NAME = re.compile(r"[^\x00-\x1f\x7f\ud800-\udfff]{1,128}")


@dataclass(frozen=True)
class ModelCredential:
    """A key of one provider, encrypted. `last4` is what people tell it by."""

    id: ModelCredentialId
    org_id: OrgId
    provider: str
    name: str | None
    last4: str
    ciphertext: Ciphertext
    is_default: bool
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True)
class CredentialPlace:
    """Where a key belongs. Its ciphertext opens in this place only."""

    org_id: OrgId
    credential_id: ModelCredentialId

    @property
    def associated_data(self) -> bytes:
        return "\0".join(("model credential", self.org_id, self.credential_id)).encode()


def check_provider(provider: str) -> str:
    if provider not in PROVIDERS:
        raise Unsupported(f"provider: must be one of {', '.join(PROVIDERS)}", field="provider")
    return provider


def check_key(key: str) -> str:
    """A key as it is kept. Raises InvalidInput; the message has nothing of the key."""
    key = key.strip()
    if not key:
        raise InvalidInput("key: must not be empty", field="key")
    if len(key) > MAX_KEY_LENGTH:
        raise InvalidInput(f"key: must have at most {MAX_KEY_LENGTH} characters", field="key")
    if not _KEY.fullmatch(key):
        raise InvalidInput("key: must be printable ASCII without spaces", field="key")
    return key


def check_credential_name(name: str) -> str:
    name = name.strip()
    if not _NAME.fullmatch(name):
        raise InvalidInput("name: must have 1 to 128 characters, without control characters", field="name")
    return name


def last4(key: str) -> str:
    """What may be shown of a key: nothing of one that is so short that this would be a good part of it."""
    return key[-_SHOWN:] if len(key) >= 4 * _SHOWN else ""


def check_matches(credential: ModelCredential, provider: str, field: str = "credential") -> None:
    """Raises CredentialMismatch."""
    if credential.provider != provider:
        raise CredentialMismatch(
            f"{field}: {credential.id} is for {credential.provider}, not for {provider}", field=field
        )


def resolve(
    provider: str,
    chosen: str | None,
    own: ModelCredential | None,
    default: ModelCredential | None,
    managed: Collection[str],
) -> str:
    """The credential of a session that starts now: an id, or MANAGED.

    `chosen` is what the agent says; `own` is that credential, if it is still there; `default` is the
    organisation's for this provider; `managed` are the providers that the operator offers. Raises
    NoCredential and ManagedUnavailable.
    """
    if chosen == MANAGED:
        if provider not in managed:
            raise ManagedUnavailable(
                f"this server's operator does not offer managed models of {provider}", field="credential"
            )
        return MANAGED
    if own is not None and own.provider == provider:
        return own.id
    if default is not None:
        return default.id
    if provider in managed:
        return MANAGED
    raise NoCredential(
        f"there is no credential for {provider}: add one at /v3/credentials with is_default, or give the "
        "agent a key",
        field="credential",
    )
