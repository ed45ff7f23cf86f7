"""`/api/tags` and `…/tags`: what users call their sandboxes by (sandbox-wire.md section 4)."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends

from opencomputer.server.domain.tags import TagKey, Tags, check_tags
from opencomputer.server.http.auth import Key, ServicesOf
from opencomputer.server.http.body import json_body
from opencomputer.wire.ids import SandboxId
from opencomputer.wire.tags import PutTags, TagKeysView, TagKeyView, TagsView

router = APIRouter()


@router.get("/tags")
async def tag_keys(caller: Key, services: ServicesOf) -> TagKeysView:
    """Every key in use, with how many sandboxes have it and how many values it has."""
    found = await services.usage.tags.keys(caller.org_id)
    return TagKeysView(keys=[_key_view(each) for each in found])


@router.get("/sandboxes/{sandbox_id}/tags")
async def get_tags(sandbox_id: str, caller: Key, services: ServicesOf) -> TagsView:
    """Neither wakes the sandbox nor counts as a use of it."""
    return _view(await services.usage.tags.get(caller.org_id, SandboxId(sandbox_id)))


@router.put("/sandboxes/{sandbox_id}/tags")
async def put_tags(
    sandbox_id: str,
    caller: Key,
    services: ServicesOf,
    body: Annotated[PutTags, Depends(json_body(PutTags))],
) -> TagsView:
    """Put these in the place of all that were there."""
    return _view(await services.usage.tags.put(caller.org_id, SandboxId(sandbox_id), check_tags(body.root)))


def _view(tags: Tags) -> TagsView:
    return TagsView(tags=dict(tags.values), tags_last_updated_at=tags.updated_at)


def _key_view(key: TagKey) -> TagKeyView:
    return TagKeyView(key=key.key, sandbox_count=key.sandboxes, value_count=key.values)
