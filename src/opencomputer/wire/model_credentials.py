"""Shapes of keys for models (agent-sessions.md section 3.11). Keys come in, and never go out."""

from __future__ import annotations

from pydantic import SecretStr

from opencomputer.wire.model import Moment, PlainModel, PlainRequest


class CreateCredential(PlainRequest):
    key: SecretStr
    provider: str = "anthropic"
    name: str | None = None
    is_default: bool | None = None


class RotateCredential(PlainRequest):
    key: SecretStr


class SetDefaultCredential(PlainRequest):
    credential: str
    provider: str | None = None


class CredentialView(PlainModel):
    id: str
    provider: str
    name: str | None
    last4: str
    is_default: bool
    created_at: Moment


class CredentialPage(PlainModel):
    data: list[CredentialView]
    next_cursor: None = None
