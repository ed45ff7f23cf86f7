"""Creating a sandbox: from a template, or from an image or a named snapshot, which may have to be built."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace

from opencomputer.server.domain import naming
from opencomputer.server.domain.elasticity import check_cap
from opencomputer.server.domain.errors import InvalidInput
from opencomputer.server.domain.limits import check_environment, check_metadata, resolve_shape
from opencomputer.server.domain.previews import wanted_token
from opencomputer.server.domain.sandbox import Sandbox
from opencomputer.server.domain.snapshot import Snapshot
from opencomputer.server.http.sandbox_api.inline_webhooks import checked_webhooks
from opencomputer.server.services.facade import Services
from opencomputer.server.services.sandboxes.build_log import BuildLine, Listener, nobody
from opencomputer.server.services.sandboxes.forks import fork_shape
from opencomputer.server.services.sandboxes.lifecycle import Created, NewSandbox, Source
from opencomputer.server.services.sandboxes.sealing import SealingRequest
from opencomputer.server.services.secret_stores import checked_hosts
from opencomputer.wire.ids import OrgId
from opencomputer.wire.sandboxes import CreateSandbox


@dataclass(frozen=True)
class Creation:
    """A create that has been validated as far as that is possible without building anything.

    `resolve` finds, or builds, what the sandbox is made from; None: a template, and nothing is to be built.
    `memory_mb` and `disk_mb` are what was asked for; None: as the source has it. `preview_token` is what its
    previews will ask for.
    """

    request: NewSandbox
    resolve: Callable[[Listener], Awaitable[Snapshot]] | None = None
    memory_mb: int | None = None
    disk_mb: int | None = None
    preview_token: str | None = field(default=None, repr=False)

    def preview_token_of(self, made: Sandbox) -> str | None:
        """The token to tell; none where an earlier create made it, and its token is another by now."""
        token = self.preview_token
        fits = token is not None and naming.secret_hash(token) == made.preview_token_hash
        return token if fits else None


async def prepare(
    services: Services, org_id: OrgId, body: CreateSandbox, key: str | None, fingerprint: str
) -> Creation:
    """Raises everything that must be answered before a stream begins."""
    token = _preview_token(services, org_id, body, key)
    request = await _request(services, org_id, body, key, fingerprint)
    if token is not None:
        request = replace(request, preview_token_hash=naming.secret_hash(token))
    resolve = await _source(services, org_id, body)
    asked = body.memory_mb is not None or body.cpu_count is not None
    return Creation(request, resolve, request.shape.memory_mb if asked else None, body.disk_mb, token)


async def carry_out(services: Services, org_id: OrgId, creation: Creation, log: Listener = nobody) -> Created:
    """Build what is not there yet, and create the sandbox."""
    if creation.resolve is None:
        return await services.lifecycle.create(org_id, creation.request)
    snapshot = await creation.resolve(log)
    await log(BuildLine(0, "create", "Creating the sandbox"))
    shape = fork_shape(snapshot.origin, creation.memory_mb)
    if creation.disk_mb is not None:
        shape = replace(shape, disk_mb=creation.disk_mb)
    request = replace(creation.request, shape=shape)
    source = Source(snapshot.origin, snapshot.memory, snapshot.id)
    return await services.lifecycle.create(org_id, request, source)


async def _request(
    services: Services, org_id: OrgId, body: CreateSandbox, key: str | None, fingerprint: str
) -> NewSandbox:
    shape = resolve_shape(
        body.memory_mb, body.cpu_count, body.disk_mb, disk_cap_mb=services.presentation.disk_cap_mb
    )
    check_cap(shape.memory_mb, services.presentation.memory_cap_mb, "memoryMB")
    check_environment(body.envs or {})
    check_metadata(body.metadata or {})
    allowlist = checked_hosts(body.egress_allowlist or [], "egressAllowlist")
    webhooks = await checked_webhooks(services, body.webhooks or [])
    holding = SealingRequest(named=body.secret_store or None, plain=body.envs or {})
    return NewSandbox(
        template=body.template_id,
        shape=shape,
        timeout_seconds=body.timeout,
        environment=body.envs or {},
        metadata=body.metadata or {},
        alias=body.alias,
        network_enabled=body.network_enabled,
        idempotency_key=key,
        request_hash=fingerprint,
        secret_stores=holding.chain,
        egress_allowlist=allowlist,
        sealing=await services.sealings.seal(org_id, holding),
        webhooks=services.webhooks.records.inline(org_id, webhooks),
    )


def _preview_token(services: Services, org_id: OrgId, body: CreateSandbox, key: str | None) -> str | None:
    """A create that is repeated with its key is told the same token."""
    if body.preview_auth is None:
        return None
    made = (
        naming.new_preview_token() if key is None else services.access.derived_token("preview", org_id, key)
    )
    return wanted_token(body.preview_auth) or made


async def _source(
    services: Services, org_id: OrgId, body: CreateSandbox
) -> Callable[[Listener], Awaitable[Snapshot]] | None:
    if body.image is not None and body.snapshot:
        raise InvalidInput("image and snapshot exclude each other", field="image")
    if body.snapshot:
        return await _from_snapshot(services, org_id, body.snapshot)
    if body.image is not None:
        return await _from_image(services, org_id, body.image)
    return None


async def _from_snapshot(
    services: Services, org_id: OrgId, name: object
) -> Callable[[Listener], Awaitable[Snapshot]]:
    if not isinstance(name, str):
        raise InvalidInput("snapshot: must be a name", field="snapshot")
    await services.snapshots.lookup(org_id, name)
    return lambda log: services.snapshots.resolve(org_id, name, log)


async def _from_image(
    services: Services, org_id: OrgId, manifest: object
) -> Callable[[Listener], Awaitable[Snapshot]]:
    # Hashing and decoding megabytes must not keep others waiting.
    image = await asyncio.to_thread(services.images.prepare, manifest)
    if image.definition.name is not None:
        # Both wait for one build: it has one key.
        await services.snapshots.ensure(org_id, image.definition.name, image)
    return lambda log: services.images.resolve(org_id, image, log)
