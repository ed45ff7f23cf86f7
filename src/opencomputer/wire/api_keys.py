"""`/api/api-keys` and `/api/whoami`: who may call."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import ConfigDict, Field, StrictStr

from opencomputer.wire.model import WireModel


class CreateApiKey(WireModel):
    name: Annotated[StrictStr, Field(min_length=1, max_length=128)]


class ApiKeyView(WireModel):
    id: str
    name: str
    prefix: str
    created_at: datetime
    last_used_at: datetime | None = None
    revoked_at: datetime | None = None


class NewApiKeyView(ApiKeyView):
    """The only answer that ever carries the key."""

    key: str


class WhoAmI(WireModel):
    """Names in snake case here: the contract's own exception (section 1.9)."""

    model_config = ConfigDict(alias_generator=None)

    org_id: str
    org_name: str
    user_id: str
    email: str
