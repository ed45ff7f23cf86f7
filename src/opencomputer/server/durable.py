"""Services of durable sessions put together: the part of `composition.py` that /v3 needs."""

from __future__ import annotations

from opencomputer.server.services.sessions.client_tokens import ClientTokens
from opencomputer.server.services.sessions.facade import DurableServices


def compose_durable(client_tokens: ClientTokens) -> DurableServices:
    return DurableServices(client_tokens=client_tokens)
