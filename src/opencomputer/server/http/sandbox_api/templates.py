"""`/api/templates`: what machines are made from."""

from __future__ import annotations

from fastapi import APIRouter

from opencomputer.server.domain.errors import NotFound, NotSupported
from opencomputer.server.domain.templates import template_name
from opencomputer.server.http.auth import Key, ServicesOf
from opencomputer.server.http.description import not_offered
from opencomputer.server.services.facade import Services
from opencomputer.wire.templates import TemplateView

router = APIRouter(prefix="/templates")
_NOT_HERE = not_offered("Templates are made and removed with `oc template` on the server's machine.")


@router.get("")
async def list_templates(_caller: Key, services: ServicesOf) -> list[TemplateView]:
    return [_view(each.name) for each in services.templates.list()]


@router.get("/{name}")
async def get(name: str, _caller: Key, services: ServicesOf) -> TemplateView:
    return _view(_known(services, name))


@router.post("", status_code=201, responses=_NOT_HERE)
async def build(_caller: Key) -> None:
    """Templates come from recipes and from OCI images, not from Dockerfiles."""
    raise NotSupported(
        "templates are made with `oc template build` and `oc template import` on the server's machine"
    )


@router.delete("/{name}", status_code=204, responses=_NOT_HERE)
async def delete(name: str, _caller: Key, services: ServicesOf) -> None:
    """Templates are the node's and every organisation's at once, and keys are an organisation's.

    So there is no key to which this could be allowed; 403 would make callers look for one.
    """
    _known(services, name)
    raise NotSupported("templates are removed with `oc template rm` on the server's machine")


def _known(services: Services, asked: str) -> str:
    found = services.templates.get(template_name(asked))
    if found is None:
        raise NotFound("there is no template of this name")
    return found.name


def _view(name: str) -> TemplateView:
    return TemplateView(template_id=name, name=name)
