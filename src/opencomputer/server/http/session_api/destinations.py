"""`/v3/sessions/…/destinations`: where the events of a session are sent."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends

from opencomputer.server.domain.sessions.destinations import Destination
from opencomputer.server.domain.sessions.events import Level
from opencomputer.server.http.session_api.auth import Durable, OrgKey
from opencomputer.server.http.session_api.body import json_body
from opencomputer.server.services.sessions.destinations import DestinationChanges, WantedDestination
from opencomputer.wire.destinations import (
    CreateDestination,
    DestinationsView,
    DestinationView,
    UpdateDestination,
)
from opencomputer.wire.ids import DestinationId, SessionId

router = APIRouter(prefix="/sessions/{session_id}/destinations")


@router.post("", status_code=201)
async def create(
    caller: OrgKey,
    services: Durable,
    session_id: str,
    body: Annotated[CreateDestination, Depends(json_body(CreateDestination))],
) -> DestinationView:
    return _shown(await services.destinations.create(caller.org_id, SessionId(session_id), _wanted(body)))


@router.get("")
async def list_destinations(caller: OrgKey, services: Durable, session_id: str) -> DestinationsView:
    found = await services.destinations.list(caller.org_id, SessionId(session_id))
    return DestinationsView(data=[_shown(each) for each in found])


@router.get("/{destination_id}")
async def get(caller: OrgKey, services: Durable, session_id: str, destination_id: str) -> DestinationView:
    found = await services.destinations.get(
        caller.org_id, SessionId(session_id), DestinationId(destination_id)
    )
    return _shown(found)


@router.patch("/{destination_id}")
async def update(
    caller: OrgKey,
    services: Durable,
    session_id: str,
    destination_id: str,
    body: Annotated[UpdateDestination, Depends(json_body(UpdateDestination))],
) -> DestinationView:
    changes = DestinationChanges(frozenset(body.model_fields_set), _wanted(body))
    updated = await services.destinations.update(
        caller.org_id, SessionId(session_id), DestinationId(destination_id), changes
    )
    return _shown(updated)


@router.delete("/{destination_id}", status_code=204)
async def delete(caller: OrgKey, services: Durable, session_id: str, destination_id: str) -> None:
    await services.destinations.delete(caller.org_id, SessionId(session_id), DestinationId(destination_id))


def _wanted(body: CreateDestination | UpdateDestination) -> WantedDestination:
    return WantedDestination(
        url=body.url,
        secret=body.secret,
        level=Level(body.level),
        types=None if body.types is None else tuple(body.types),
        include_raw=body.include_raw,
        enabled=body.enabled,
    )


def _shown(destination: Destination) -> DestinationView:
    return DestinationView(
        id=destination.id,
        session=destination.session_id,
        url=destination.url,
        level=destination.level,
        types=None if destination.types is None else list(destination.types),
        include_raw=destination.include_raw,
        enabled=destination.enabled,
        has_secret=bool(destination.secrets),
        created_after_seq=destination.created_after_seq,
        created_at=destination.created_at,
        updated_at=destination.updated_at,
    )
