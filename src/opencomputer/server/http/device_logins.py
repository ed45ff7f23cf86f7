"""`/auth/cli/…`: how `oc login` gets a key, and the page on which it is approved."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import parse_qs, urlencode, urlsplit

from fastapi import APIRouter, Depends, Request
from starlette.responses import Response

from opencomputer.server.domain.device_login import INTERVAL_SECONDS, LIFE
from opencomputer.server.domain.errors import Forbidden, InvalidInput, OpenComputerError, Unauthenticated
from opencomputer.server.http.auth import Key, ServicesOf
from opencomputer.server.http.body import json_body, read_body
from opencomputer.server.http.errors import status_of
from opencomputer.server.http.login_page import Entered, decided, form
from opencomputer.server.http.render import public_origin
from opencomputer.wire.device_login import (
    AuthorizedLoginView,
    CredentialView,
    DecidedLoginView,
    DecideLogin,
    ExchangeDeviceCode,
    PendingLoginView,
    StartedLoginView,
)

router = APIRouter(prefix="/auth/cli")
_PAGE_PATH = "/verify"
_MOST_FORM_BYTES = 4096
_SECRET = {"Cache-Control": "no-store"}


@router.post("/device")
async def start(request: Request, response: Response, services: ServicesOf) -> StartedLoginView:
    """Ask for a login. Its client waits, and a person enters the `user_code` on the page."""
    started = await services.device_logins.begin(_address(request))
    page = f"{public_origin(request, services)}{router.prefix}{_PAGE_PATH}"
    response.headers.update(_SECRET)
    return StartedLoginView(
        device_code=started.device_code,
        user_code=started.user_code,
        verification_uri=page,
        verification_uri_complete=f"{page}?{urlencode({'code': started.user_code})}",
        expires_in=int(LIFE.total_seconds()),
        interval=INTERVAL_SECONDS,
    )


@router.post("/device/exchange", responses={202: {"model": PendingLoginView}})
async def exchange(
    response: Response,
    services: ServicesOf,
    body: Annotated[ExchangeDeviceCode, Depends(json_body(ExchangeDeviceCode))],
) -> AuthorizedLoginView | PendingLoginView:
    """Fetch the key of an approved login, once. 202 while nobody has decided."""
    made = await services.device_logins.exchange(body.device_code, body.credential_name)
    if made is None:
        response.status_code = 202
        return PendingLoginView(retry_after=INTERVAL_SECONDS)
    response.headers.update(_SECRET)
    credential = CredentialView(
        id=made.record.id, key=made.secret, key_prefix=made.record.prefix, name=made.record.name
    )
    return AuthorizedLoginView(credential=credential)


@router.post("/device/decide")
async def decide(
    caller: Key, services: ServicesOf, body: Annotated[DecideLogin, Depends(json_body(DecideLogin))]
) -> DecidedLoginView:
    """Approve or deny a login that waits, for the organisation of the key."""
    login = await services.device_logins.decide(caller, body.user_code, approve=body.approve)
    return DecidedLoginView(
        status="approved" if body.approve else "denied", requested_from=login.requested_from
    )


@router.delete("/credential", status_code=204)
async def revoke(caller: Key, services: ServicesOf) -> Response:
    """Revoke the key that this request comes with."""
    await services.access.revoke_key(caller.org_id, caller.key_id)
    return Response(status_code=204)


@router.get(_PAGE_PATH, include_in_schema=False)
async def show_page(request: Request) -> Response:
    return form(Entered(request.query_params.get("code", "")[:64]))


@router.post(_PAGE_PATH, include_in_schema=False)
async def submit_page(request: Request, services: ServicesOf) -> Response:
    try:
        _check_origin(request, public_origin(request, services))
        entered = _fields(await read_body(request, _MOST_FORM_BYTES))
    except (Forbidden, InvalidInput) as error:
        return form(Entered(fault=error.message), status_of(error))
    code, approve = entered.get("user_code", "")[:64], entered.get("decision") == "approve"
    try:
        caller = await services.device_logins.approver(entered.get("api_key", "").strip(), _address(request))
        login = await services.device_logins.decide(caller, code, approve=approve)
    except Unauthenticated:
        return form(Entered(code, "this is no valid API key"), 401)
    except OpenComputerError as error:
        return form(Entered(code, error.message), status_of(error))
    return decided(approved=approve, requested_from=login.requested_from)


def _check_origin(request: Request, own: str) -> None:
    """The page has no power of its own that another site could borrow; still only its own form may send."""
    site = request.headers.get("sec-fetch-site")
    origin = request.headers.get("origin")
    hosts = {urlsplit(own).netloc, request.headers.get("host", "")}
    if site not in (None, "same-origin", "none") or (origin and urlsplit(origin).netloc not in hosts):
        raise Forbidden("this form was sent from another site")


def _fields(body: bytes) -> dict[str, str]:
    try:
        fields = parse_qs(body.decode(), max_num_fields=10)
    except ValueError as error:
        raise InvalidInput("the form is not readable") from error
    return {name: values[0] for name, values in fields.items()}


def _address(request: Request) -> str:
    return request.client.host if request.client else "unknown"
