"""Webhooks: where an organisation wants events of its sandboxes sent (sandbox-wire.md section 18)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from opencomputer.server.contracts.clock import Clock
from opencomputer.server.contracts.lifecycle_webhooks import WebhookTables
from opencomputer.server.contracts.secrets import Keyring
from opencomputer.server.contracts.stores import SandboxStore
from opencomputer.server.contracts.webhooks import WebhookSender
from opencomputer.server.domain.errors import Conflict, Gone, IdempotencyMismatch, InvalidInput, NotFound
from opencomputer.server.domain.lifecycle_webhooks import (
    MOST_OF_SANDBOX,
    MOST_WEBHOOKS,
    Webhook,
    WebhookSecretPlace,
    checked_headers,
    checked_types,
    inline_webhook_id,
    new_webhook_id,
)
from opencomputer.server.domain.sandbox import TERMINAL, Sandbox
from opencomputer.server.domain.sessions.errors import DestinationForbidden
from opencomputer.server.domain.webhooks.signing import new_secret, rotated, usable
from opencomputer.wire.ids import OrgId, SandboxId, WebhookId


@dataclass(frozen=True)
class WantedWebhook:
    """A destination as it is asked for. `secret` None: one is made. `types` empty: all."""

    url: str
    name: str | None = None
    secret: str | None = field(default=None, repr=False)
    types: tuple[str, ...] = ()
    sandbox_id: SandboxId | None = None
    enabled: bool = True
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    idempotency_key: str | None = None
    request_hash: str | None = None


@dataclass(frozen=True)
class WebhookChanges:
    """`named` tells what is to change; the rest counts for nothing."""

    named: frozenset[str]
    values: WantedWebhook
    rotate_secret: bool = False


@dataclass(frozen=True)
class Made:
    """`is_new` False: a repeated request, and what the first one made. `secret`: one to tell, if there is."""

    webhook: Webhook
    secret: str | None = field(repr=False)
    is_new: bool = True


class Webhooks:
    """Of one organisation; those of others are NotFound."""

    def __init__(
        self,
        tables: WebhookTables,
        sandboxes: SandboxStore,
        sender: WebhookSender,
        keyring: Keyring,
        clock: Clock,
    ) -> None:
        self._webhooks = tables.webhooks
        self._sandboxes = sandboxes
        self._sender = sender
        self._keyring = keyring
        self._clock = clock

    async def create(self, org_id: OrgId, wanted: WantedWebhook) -> Made:
        """It gets what happens from now on.

        Raises InvalidInput, NotFound and Gone for its sandbox, IdempotencyMismatch, Conflict when there are
        too many.
        """
        earlier = await self._earlier(org_id, wanted)
        if earlier is not None:
            return earlier
        await self.check(wanted, "")
        if wanted.sandbox_id is not None:
            await self._check_sandbox(org_id, wanted.sandbox_id)
        secret = wanted.secret or new_secret()
        webhook = self._new(org_id, new_webhook_id(), wanted, secret)
        most = MOST_WEBHOOKS if wanted.sandbox_id is None else MOST_OF_SANDBOX
        try:
            await self._webhooks.add(webhook, most=most)
        except Conflict:
            earlier = await self._earlier(org_id, wanted)
            if earlier is None:
                raise
            return earlier
        return Made(webhook, secret)

    async def check(self, wanted: WantedWebhook, where: str) -> None:
        """What can be said about one before it is made; `where` it is in its request. Raises InvalidInput."""
        checked_types(wanted.types, f"{where}eventTypes")
        checked_headers(wanted.headers)
        await self._check_url(wanted.url, where)

    async def _check_url(self, url: str, where: str = "") -> None:
        try:
            await self._sender.check(url)
        except DestinationForbidden as error:
            raise InvalidInput(f"{where}{error.message}", field=f"{where}url") from error

    async def _check_sandbox(self, org_id: OrgId, sandbox_id: SandboxId) -> None:
        sandbox = await self._sandboxes.get(org_id, sandbox_id)
        if sandbox is None or not sandbox.visible:
            raise NotFound("there is no such sandbox", field="sandboxId")
        if sandbox.state in TERMINAL:
            raise Gone

    async def _earlier(self, org_id: OrgId, wanted: WantedWebhook) -> Made | None:
        """What an earlier request with the same key made."""
        if wanted.idempotency_key is None:
            return None
        found = await self._webhooks.by_idempotency_key(org_id, wanted.idempotency_key)
        if found is None:
            return None
        if found.request_hash != wanted.request_hash:
            raise IdempotencyMismatch
        return Made(found, self._secret(found), is_new=False)

    def inline(
        self, org_id: OrgId, wanted: Sequence[WantedWebhook]
    ) -> Callable[[Sandbox], Sequence[Webhook]]:
        """Those that are to be made together with a sandbox, once it has its id."""

        def made(sandbox: Sandbox) -> Sequence[Webhook]:
            return [
                self._new(
                    org_id,
                    inline_webhook_id(sandbox.id, place),
                    replace(each, sandbox_id=sandbox.id),
                    each.secret or new_secret(),
                )
                for place, each in enumerate(wanted)
            ]

        return made

    async def made_with(self, sandbox: Sandbox, count: int) -> Sequence[Made | None]:
        """Those that were made together with a sandbox, in their order; None for one that is gone."""
        ids = [inline_webhook_id(sandbox.id, place) for place in range(count)]
        found = [await self._webhooks.get(sandbox.org_id, each) for each in ids]
        return [None if each is None else Made(each, self._secret(each)) for each in found]

    async def list(self, org_id: OrgId) -> Sequence[Webhook]:
        """Oldest first."""
        return await self._webhooks.list(org_id)

    async def get(self, org_id: OrgId, webhook_id: WebhookId) -> Webhook:
        found = await self._webhooks.get(org_id, webhook_id)
        if found is None:
            raise NotFound("there is no such webhook")
        return found

    async def secret(self, org_id: OrgId, webhook_id: WebhookId) -> str:
        """What signs. Raises SecretUnreadable."""
        return self._secret(await self.get(org_id, webhook_id))

    async def update(self, org_id: OrgId, webhook_id: WebhookId, changes: WebhookChanges) -> Made:
        """Change what is named. A secret that is replaced goes on signing beside the new one for a day.

        Raises InvalidInput.
        """
        present = await self.get(org_id, webhook_id)
        if "url" in changes.named and changes.values.url != present.url:
            await self._check_url(changes.values.url)
        secret: str | None = None

        def decide(webhook: Webhook) -> Webhook:
            nonlocal secret
            now = self._clock.now()
            changed = _changed(webhook, changes, now)
            # One that lost its secret together with a key gets another.
            if not changes.rotate_secret and webhook.secrets:
                return changed
            secret = new_secret()
            sealed = self._keyring.encrypt(secret, WebhookSecretPlace(org_id, webhook_id))
            return replace(changed, secrets=rotated(webhook.secrets, sealed, now))

        after = await self._webhooks.change(org_id, webhook_id, decide)
        if after is None:
            raise NotFound("there is no such webhook")
        return Made(after, secret, is_new=False)

    async def delete(self, org_id: OrgId, webhook_id: WebhookId) -> None:
        """Nothing is sent there any more, and what was sent is forgotten."""
        if not await self._webhooks.delete(org_id, webhook_id):
            raise NotFound("there is no such webhook")

    def _new(self, org_id: OrgId, webhook_id: WebhookId, wanted: WantedWebhook, secret: str) -> Webhook:
        now = self._clock.now()
        sealed = self._keyring.encrypt(secret, WebhookSecretPlace(org_id, webhook_id))
        return Webhook(
            id=webhook_id,
            org_id=org_id,
            name=wanted.name,
            url=wanted.url,
            types=tuple(dict.fromkeys(wanted.types)),
            sandbox_id=wanted.sandbox_id,
            enabled=wanted.enabled,
            headers=wanted.headers,
            secrets=((sealed, None),),
            idempotency_key=wanted.idempotency_key,
            request_hash=wanted.request_hash,
            created_at=now,
            updated_at=now,
        )

    def _secret(self, webhook: Webhook) -> str:
        signing = signing_secrets(webhook, self._keyring, self._clock)
        if not signing:
            raise NotFound("this webhook lost its secret; rotate it")
        return signing[0]


def _changed(webhook: Webhook, changes: WebhookChanges, now: datetime) -> Webhook:
    """With what is named."""
    named, values = changes.named, changes.values
    return replace(
        webhook,
        url=values.url if "url" in named else webhook.url,
        name=values.name if "name" in named else webhook.name,
        types=checked_types(values.types, "eventTypes") if "types" in named else webhook.types,
        enabled=values.enabled if "enabled" in named else webhook.enabled,
        updated_at=now,
    )


def signing_secrets(webhook: Webhook, keyring: Keyring, clock: Clock) -> Sequence[str]:
    """What signs now, newest first. Raises SecretUnreadable."""
    place = WebhookSecretPlace(webhook.org_id, webhook.id)
    return [keyring.decrypt(sealed, place) for sealed, _ in usable(webhook.secrets, clock.now())]
