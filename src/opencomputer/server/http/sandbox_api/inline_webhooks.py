"""Webhooks that are made together with a sandbox."""

from __future__ import annotations

from collections.abc import Sequence

from opencomputer.server.domain.sandbox import Sandbox
from opencomputer.server.services.facade import Services
from opencomputer.server.services.sandboxes.webhooks import WantedWebhook
from opencomputer.wire.webhooks import InlineWebhook, InlineWebhookView


async def checked_webhooks(services: Services, asked: Sequence[InlineWebhook]) -> Sequence[WantedWebhook]:
    """What a create asks for. Raises InvalidInput."""
    wanted = [
        WantedWebhook(each.url, secret=each.secret, types=tuple(each.event_types or ())) for each in asked
    ]
    for place, each in enumerate(wanted):
        await services.webhooks.records.check(each, f"webhooks.{place}.")
    return wanted


async def inline_views(
    services: Services, made: Sandbox, asked: Sequence[InlineWebhook]
) -> list[InlineWebhookView]:
    """In their order, with the secrets of those that brought none."""
    kept = await services.webhooks.records.made_with(made, len(asked))
    return [
        InlineWebhookView(
            id=each.webhook.id, url=each.webhook.url, secret=None if wanted.secret else each.secret
        )
        for each, wanted in zip(kept, asked, strict=True)
        if each is not None
    ]
