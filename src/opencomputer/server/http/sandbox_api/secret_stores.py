"""`/api/secret-stores` (sandbox-wire.md section 16)."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends
from starlette.responses import Response

from opencomputer.server.domain.secrets import Secret, SecretStore
from opencomputer.server.http.auth import Key, ServicesOf
from opencomputer.server.http.body import json_body
from opencomputer.wire.ids import SecretStoreId
from opencomputer.wire.secret_stores import (
    CreateSecretStore,
    SecretSetView,
    SecretStoreView,
    SecretView,
    SetSecret,
    UpdateSecretStore,
)

router = APIRouter(prefix="/secret-stores")


@router.post("", status_code=201)
async def create(
    caller: Key,
    services: ServicesOf,
    body: Annotated[CreateSecretStore, Depends(json_body(CreateSecretStore))],
) -> SecretStoreView:
    store = await services.secret_stores.create(caller.org_id, body.name, body.egress_allowlist or [])
    return _store(store)


@router.get("")
async def list_stores(caller: Key, services: ServicesOf) -> list[SecretStoreView]:
    return [_store(store) for store in await services.secret_stores.list(caller.org_id)]


@router.get("/{store_id}")
async def get(store_id: str, caller: Key, services: ServicesOf) -> SecretStoreView:
    return _store(await services.secret_stores.get(caller.org_id, SecretStoreId(store_id)))


@router.put("/{store_id}")
async def update(
    store_id: str,
    caller: Key,
    services: ServicesOf,
    body: Annotated[UpdateSecretStore, Depends(json_body(UpdateSecretStore))],
) -> SecretStoreView:
    store = await services.secret_stores.update(
        caller.org_id,
        SecretStoreId(store_id),
        name=body.name or None,
        egress_allowlist=body.egress_allowlist,
    )
    return _store(store)


@router.delete("/{store_id}", status_code=204)
async def delete(store_id: str, caller: Key, services: ServicesOf) -> Response:
    await services.secret_stores.delete(caller.org_id, SecretStoreId(store_id))
    return Response(status_code=204)


@router.put("/{store_id}/secrets/{name}", response_model_exclude_none=True)
async def set_secret(
    store_id: str,
    name: str,
    caller: Key,
    services: ServicesOf,
    body: Annotated[SetSecret, Depends(json_body(SetSecret))],
) -> SecretSetView:
    """Sandboxes that hold it use the new value at once."""
    refreshed = await services.secret_stores.set_secret(
        caller.org_id, SecretStoreId(store_id), name, body.value.get_secret_value(), body.allowed_hosts or []
    )
    return SecretSetView(name=name, refreshed=refreshed.count, refresh_errors=refreshed.errors or None)


@router.get("/{store_id}/secrets")
async def list_secrets(store_id: str, caller: Key, services: ServicesOf) -> list[SecretView]:
    secrets = await services.secret_stores.list_secrets(caller.org_id, SecretStoreId(store_id))
    return [_secret(secret) for secret in secrets]


@router.delete("/{store_id}/secrets/{name}", status_code=204)
async def delete_secret(store_id: str, name: str, caller: Key, services: ServicesOf) -> Response:
    await services.secret_stores.delete_secret(caller.org_id, SecretStoreId(store_id), name)
    return Response(status_code=204)


def _store(store: SecretStore) -> SecretStoreView:
    return SecretStoreView(
        id=store.id,
        org_id=store.org_id,
        name=store.name,
        egress_allowlist=list(store.egress_allowlist),
        created_at=store.created_at,
        updated_at=store.updated_at,
    )


def _secret(secret: Secret) -> SecretView:
    return SecretView(
        id=secret.id,
        store_id=secret.store_id,
        name=secret.name,
        allowed_hosts=list(secret.hosts),
        created_at=secret.created_at,
        updated_at=secret.updated_at,
    )
