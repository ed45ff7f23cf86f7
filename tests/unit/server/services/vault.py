"""What tests of secrets do over and over."""

from __future__ import annotations

from collections.abc import Mapping

from opencomputer.server.domain.sandbox import Sandbox
from opencomputer.server.domain.secrets import SecretStore
from opencomputer.server.services.sandboxes.sealing import SealingRequest
from tests.unit.server.services.harness import ORG, Node, Process


async def store_with(process: Process, name: str = "keys", /, **secrets: str) -> SecretStore:
    """A store with these secrets."""
    store = await process.secret_stores.create(ORG, name, [])
    for each, value in secrets.items():
        await process.secret_stores.set_secret(ORG, store.id, each, value, ())
    return store


async def named(
    process: Process, store: SecretStore, environment: Mapping[str, str] | None = None, **changes: object
) -> Sandbox:
    """A sandbox that was created with this store. `environment` is what its maker gives."""
    plain = environment or {}
    request = SealingRequest(named=store.name, plain=plain)
    sealing = await process.sealings.seal(ORG, request)
    return await process.create(secret_stores=request.chain, sealing=sealing, environment=plain, **changes)


def values(process: Process, sandbox: Sandbox) -> Mapping[str, str]:
    """What its tokens stand for, as the gate knows it."""
    return {secret.name: secret.value for secret in process.gate.of(sandbox.id).secrets}


def environment(node: Node, sandbox: Sandbox) -> Mapping[str, str]:
    """What its machine was told last."""
    identity = node.machine_of(sandbox).identity
    assert identity is not None
    return identity.environment
