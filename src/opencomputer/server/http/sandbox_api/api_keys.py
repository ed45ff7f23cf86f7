"""`/api/api-keys` and `/api/whoami`."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends
from starlette.responses import Response

from opencomputer.server.http import render
from opencomputer.server.http.auth import Key, ServicesOf
from opencomputer.server.http.body import json_body
from opencomputer.wire.api_keys import ApiKeyView, CreateApiKey, NewApiKeyView, WhoAmI
from opencomputer.wire.ids import ApiKeyId

router = APIRouter()


@router.get("/whoami")
async def who_am_i(caller: Key, services: ServicesOf) -> WhoAmI:
    organisation = await services.access.organisation(caller.org_id)
    return WhoAmI(org_id=organisation.id, org_name=organisation.name, user_id="", email="")


@router.get("/api-keys", response_model_exclude_none=True)
async def list_keys(caller: Key, services: ServicesOf) -> list[ApiKeyView]:
    return [render.api_key(key) for key in await services.access.list_keys(caller.org_id)]


@router.post("/api-keys", status_code=201, response_model_exclude_none=True)
async def create_key(
    caller: Key, services: ServicesOf, body: Annotated[CreateApiKey, Depends(json_body(CreateApiKey))]
) -> NewApiKeyView:
    created = await services.access.create_key(caller.org_id, body.name)
    return NewApiKeyView(**render.api_key(created.record).model_dump(by_alias=False), key=created.secret)


@router.delete("/api-keys/{key_id}", status_code=204)
async def revoke_key(key_id: str, caller: Key, services: ServicesOf) -> Response:
    await services.access.revoke_key(caller.org_id, ApiKeyId(key_id))
    return Response(status_code=204)
