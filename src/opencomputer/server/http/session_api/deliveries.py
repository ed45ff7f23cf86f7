"""`/v3/sessions/…/deliveries`: what became of each webhook, and sending it again."""

from __future__ import annotations

from fastapi import APIRouter

from opencomputer.server.domain.errors import InvalidInput, NotFound
from opencomputer.server.domain.sessions.destinations import Delivery, DeliveryFilter, DeliveryStatus
from opencomputer.server.http.session_api.auth import Durable, OrgKey
from opencomputer.server.http.session_api.paging import Bounds, limit_of
from opencomputer.wire.destinations import DeliveriesView, DeliveryView
from opencomputer.wire.ids import DeliveryId, DestinationId, SessionId

router = APIRouter(prefix="/sessions/{session_id}/deliveries")

_BOUNDS = Bounds(usual=50, most=200)


@router.get("")
async def list_deliveries(
    caller: OrgKey,
    services: Durable,
    session_id: str,
    destination: str | None = None,
    status: str | None = None,
    after: str | None = None,
    limit: str | None = None,
) -> DeliveriesView:
    owner, session = caller.org_id, SessionId(session_id)
    most = limit_of(limit, _BOUNDS)
    wanted = DeliveryFilter(DestinationId(destination) if destination else None, _status(status))
    last: Delivery | None = None
    if after:
        try:
            last = await services.deliveries.get(owner, session, DeliveryId(after))
        except NotFound:
            # It may be the session that is not there; that is found out below.
            await services.deliveries.list(owner, session, wanted, 1)
            raise InvalidInput("after must be the id of a delivery of this session", field="after") from None
    found = await services.deliveries.list(owner, session, wanted, most + 1, last)
    shown = found[:most]
    more = len(found) > most
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
