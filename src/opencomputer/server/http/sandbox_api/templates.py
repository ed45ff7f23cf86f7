"""`/api/templates`: what machines are made from."""

from __future__ import annotations

from fastapi import APIRouter

from opencomputer.server.domain.errors import NotFound, NotSupported
from opencomputer.server.http.auth import Key, ServicesOf
from opencomputer.wire.templates import TemplateView

router = APIRouter(prefix="/templates")


@router.get("")
async def list_templates(_caller: Key, services: ServicesOf) -> list[TemplateView]:
    return [TemplateView(template_id=each.name, name=each.name) for each in services.templates.list()]


@router.get("/{name}")
async def get(name: str, _caller: Key, services: ServicesOf) -> TemplateView:
    if services.templates.get(name) is None:
        raise NotFound("there is no template of this name")
    return TemplateView(template_id=name, name=name)


@router.post("", status_code=201)
@router.delete("/{name}", status_code=204)
async def refuse(_caller: Key) -> None:
    raise NotSupported("templates are built and removed with `oc template` on the server's machine")
