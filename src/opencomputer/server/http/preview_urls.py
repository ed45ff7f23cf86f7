"""Previews and grants as the contract shows them, with addresses that work from where the caller is."""

from __future__ import annotations

from urllib.parse import urlsplit

from fastapi import Request

from opencomputer.server.domain.previews import Grant, Preview, PreviewAddress
from opencomputer.server.http.preview_headers import LINK_PARAMETER
from opencomputer.server.http.render import public_origin
from opencomputer.server.services.facade import Services
from opencomputer.wire.ids import SandboxId
from opencomputer.wire.previews import GrantView, PreviewView


def preview_view(request: Request, services: Services, preview: Preview) -> PreviewView:
    host = _host(services, preview.sandbox_id, preview.port)
    own = preview.domain and PreviewAddress(preview.sandbox_id, preview.port, preview.domain).host
    return PreviewView(
        id=preview.id,
        sandbox_id=preview.sandbox_id,
        org_id=preview.org_id,
        hostname=host,
        custom_hostname=own,
        url=url_under(request, services, own or host),
        port=preview.port,
        created_at=preview.created_at,
    )


def grant_view(request: Request, services: Services, grant: Grant, token: str | None = None) -> GrantView:
    url = url_under(request, services, _host(services, grant.sandbox_id, grant.port))
    return GrantView(
        id=grant.id,
        sandbox_id=grant.sandbox_id,
        port=grant.port,
        url=None if token is None else f"{url}/?{LINK_PARAMETER.decode()}={token}",
        created_at=grant.created_at,
        expires_at=grant.expires_at,
    )


def _host(services: Services, sandbox_id: SandboxId, port: int) -> str:
    return PreviewAddress(sandbox_id, port, services.presentation.sandbox_domain).host


def url_under(request: Request, services: Services, host: str) -> str:
    """With the scheme and the port under which the caller reaches this server."""
    origin = urlsplit(public_origin(request, services))
    try:
        port = origin.port
    except ValueError:
        port = None
    return f"{origin.scheme}://{host}{f':{port}' if port else ''}"
