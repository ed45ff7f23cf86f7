"""The header `Idempotency-Key` of /v3."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request

from opencomputer.server.domain.sessions.idempotency import checked_key

HEADER = "Idempotency-Key"
DESCRIPTION = {
    "name": HEADER,
    "in": "header",
    "description": "the same request with the same key is done once, and gets the same answer",
    "schema": {"type": "string"},
}


def key_of(request: Request) -> str | None:
    return checked_key(request.headers.get(HEADER), HEADER)


IdempotencyKey = Annotated[str | None, Depends(key_of)]
"""Raises InvalidInput for what is no key. Stands behind the body, which is looked at before."""
