"""`/api/secret-stores` and `…/allowed-hosts` (sandbox-wire.md sections 16 and 2.10), never with values."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import ConfigDict, Field, SecretStr, StrictStr

from opencomputer.wire.model import WireModel

Hosts = list[StrictStr]


class CreateSecretStore(WireModel):
    name: StrictStr
    egress_allowlist: Hosts | None = None


class UpdateSecretStore(WireModel):
    """What is null, or an empty name, stays as it is; an empty list clears the one that is there."""

    name: StrictStr | None = None
    egress_allowlist: Hosts | None = None


class SetSecret(WireModel):
    """Without hosts, the value may go wherever its sandboxes may."""

    model_config = ConfigDict(hide_input_in_errors=True)

    value: Annotated[SecretStr, Field(strict=True)]
    allowed_hosts: Hosts | None = None


class SecretStoreView(WireModel):
    id: str
    org_id: str
    name: str
    egress_allowlist: list[str]
    created_at: datetime
    updated_at: datetime


class SecretView(WireModel):
    id: str
    store_id: str
    name: str
    allowed_hosts: list[str]
    created_at: datetime
    updated_at: datetime


class SecretSetView(WireModel):
    """`refreshed` running sandboxes use the new value now, `refresh_errors` could not be told."""

    name: str
    status: str = "set"
    refreshed: int
    refresh_errors: int | None = None


class AllowedHostsView(WireModel):
    """An empty list permits every public host. Secrets without hosts of their own are not in the map.

    `base_secret_store` is the one below `secret_store`, of all that are in `secret_stores`, weakest first.
    """

    sandbox_id: str
    secret_store: str | None = None
    base_secret_store: str | None = None
    secret_stores: list[str]
    egress_allowlist: list[str]
    per_secret_allowed_hosts: dict[str, list[str]]
    network_enabled: bool
