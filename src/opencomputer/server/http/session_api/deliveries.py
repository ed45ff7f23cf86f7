"""`/v3/sessions/…/deliveries`: what became of each webhook, and sending it again."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from opencomputer.server.domain.errors import InvalidInput
from opencomputer.server.domain.sessions.destinations import Delivery, DeliveryFilter
from opencomputer.server.domain.webhooks.attempts import DeliveryStatus
from opencomputer.server.http.session_api.auth import Durable, OrgKey
from opencomputer.server.http.session_api.paging import Bounds, limit_of
from opencomputer.wire.destinations import DeliveriesView, DeliveryView
from opencomputer.wire.ids import DeliveryId, DestinationId, SessionId
from opencomputer.wire.model import PlainModel

router = APIRouter(prefix="/sessions/{session_id}/deliveries")

_BOUNDS = Bounds(usual=50, most=200)


class DeliveryQuery(PlainModel):
    """The query of a list of deliveries; all as it was sent."""

    destination: str | None = None
    status: str | None = None
    after: str | None = None
    limit: str | None = None


@router.get("")
async def list_deliveries(
    caller: OrgKey, services: Durable, session_id: str, query: Annotated[DeliveryQuery, Query()]
) -> DeliveriesView:
    owner, session = caller.org_id, SessionId(session_id)
    most = limit_of(query.limit, _BOUNDS)
    wanted = DeliveryFilter(
        DestinationId(query.destination) if query.destination else None, _status(query.status)
    )
    found = await services.deliveries.list(owner, session, wanted, most + 1, query.after or None)
    shown, more = found[:most], len(found) > most
    return DeliveriesView(data=[_shown(each) for each in shown], next_cursor=shown[-1].id if more else None)


@router.get("/{delivery_id}")
async def get(caller: OrgKey, services: Durable, session_id: str, delivery_id: str) -> DeliveryView:
    found = await services.deliveries.get(caller.org_id, SessionId(session_id), DeliveryId(delivery_id))
    return _shown(found)


@router.post("/{delivery_id}/redeliver", status_code=202)
async def redeliver(caller: OrgKey, services: Durable, session_id: str, delivery_id: str) -> DeliveryView:
    again = await services.deliveries.redeliver(caller.org_id, SessionId(session_id), DeliveryId(delivery_id))
    return _shown(again)


def _status(text: str | None) -> DeliveryStatus | None:
    if not text:
        return None
    try:
        return DeliveryStatus(text)
    except ValueError:
        allowed = ", ".join(DeliveryStatus)
        raise InvalidInput(f"status must be one of {allowed}", field="status") from None


def _shown(delivery: Delivery) -> DeliveryView:
    return DeliveryView(
        id=delivery.id,
        session=delivery.session_id,
        destination=delivery.destination_id,
        event_id=delivery.event_id,
        event_seq=delivery.event_seq,
        status=delivery.status,
        attempts=delivery.attempts,
        last_attempt_at=delivery.last_attempt_at,
        response_code=delivery.response_code,
        error=delivery.error,
        created_at=delivery.created_at,
        updated_at=delivery.updated_at,
    )
