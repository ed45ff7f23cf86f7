"""Signed URLs of files: making them, and the routes that need nothing else (sandbox-wire.md section 10.1)."""

from __future__ import annotations

import re
from typing import Annotated
from urllib.parse import quote, urlencode

from fastapi import APIRouter, Depends, Request
from starlette.responses import Response

from opencomputer.server.domain.access import Caller
from opencomputer.server.domain.file_urls import FileOperation
from opencomputer.server.http import render
from opencomputer.server.http.auth import DataPlane, Key, ServicesOf, services_of, use_sandbox
from opencomputer.server.http.body import json_body
from opencomputer.server.http.contents import answer_with_file, store_body
from opencomputer.server.http.description import query, raw_body
from opencomputer.server.services.facade import Services
from opencomputer.server.services.sandboxes.live import LiveSandbox
from opencomputer.wire.file_urls import FileUrlView, SignFileUrl
from opencomputer.wire.ids import SandboxId

router = APIRouter(prefix="/sandboxes/{sandbox_id}/files")
control = APIRouter(prefix="/sandboxes/{sandbox_id}/files")
_SIGNED = {
    "parameters": [
        query("path", "as it was signed", required=True),
        query("expires", "as it was signed", required=True),
        query("signature", "what permits it", required=True),
    ]
}

SignBody = Annotated[SignFileUrl, Depends(json_body(SignFileUrl))]
_NOT_PLAIN = re.compile(r"[^A-Za-z0-9 !#$&+.^_`{}~()=@-]")


@router.post("/download-url")
async def sign_download(
    request: Request, services: ServicesOf, caller: DataPlane, sandbox_id: str, body: SignBody
) -> FileUrlView:
    return await _signed(request, services, caller, FileOperation.DOWNLOAD, body)


@router.post("/upload-url")
async def sign_upload(
    request: Request, services: ServicesOf, caller: DataPlane, sandbox_id: str, body: SignBody
) -> FileUrlView:
    return await _signed(request, services, caller, FileOperation.UPLOAD, body)


async def _signed(
    request: Request, services: Services, caller: Caller, operation: FileOperation, body: SignFileUrl
) -> FileUrlView:
    sandbox_id = SandboxId(request.path_params["sandbox_id"])
    signed = await services.file_urls.sign(caller.org_id, sandbox_id, operation, body.path, body.expires_in)
    query = {"path": body.path, "expires": signed.permit.expires, "signature": signed.signature}
    origin = render.public_origin(request, services)
    path = f"/api/sandboxes/{quote(sandbox_id, safe='')}/files/{operation}"
    return FileUrlView(
        url=f"{origin}{path}?{urlencode(query, quote_via=quote, safe='')}", expires_at=signed.expires_at
    )


@control.post("/revoke-urls", status_code=204)
async def revoke(services: ServicesOf, key: Key, sandbox_id: str) -> Response:
    await services.file_urls.revoke(key.org_id, SandboxId(sandbox_id))
    return Response(status_code=204)


class _Permitted:
    """The sandbox of the path, for whoever has a URL that is signed for this operation.

    It is reached, and with that woken, after the signature has been found right.
    """

    def __init__(self, operation: FileOperation) -> None:
        self._operation = operation

    async def __call__(self, request: Request) -> LiveSandbox:
        sandbox_id = SandboxId(request.path_params["sandbox_id"])
        query = request.query_params
        org_id = await services_of(request).file_urls.redeem(
            sandbox_id,
            self._operation,
            query.get("path", ""),
            query.get("expires", ""),
            query.get("signature", ""),
        )
        return await use_sandbox(request, org_id, sandbox_id)


@router.head("/download", response_class=Response, openapi_extra=_SIGNED)
@router.get("/download", response_class=Response, openapi_extra=_SIGNED)
async def download(
    request: Request, live: Annotated[LiveSandbox, Depends(_Permitted(FileOperation.DOWNLOAD))]
) -> Response:
    path = request.query_params["path"]
    headers = {
        "Content-Disposition": attachment(path),
        "X-Content-Type-Options": "nosniff",
        # It is the file as it is now, each time, and whoever has the URL.
        "Cache-Control": "no-store",
    }
    return await answer_with_file(request, live, path, headers)


@router.put("/upload", status_code=204, openapi_extra={**_SIGNED, **raw_body("application/octet-stream")})
async def upload(
    request: Request, live: Annotated[LiveSandbox, Depends(_Permitted(FileOperation.UPLOAD))]
) -> Response:
    return await store_body(request, live, request.query_params["path"])


def attachment(path: str) -> str:
    """A `Content-Disposition` that has browsers save the file under its own name (RFC 6266).

    The plain form is for old clients, and has nothing in it that could end it or lead to another folder.
    """
    name = path.rpartition("/")[2] or "download"
    plain = _NOT_PLAIN.sub("_", name)
    return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(name, safe='')}"
