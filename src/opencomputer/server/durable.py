"""Services of durable sessions put together: the part of `composition.py` that /v3 needs."""

from __future__ import annotations

from opencomputer.server.contracts.clock import Clock
from opencomputer.server.services.sessions.client_tokens import ClientTokens
from opencomputer.server.services.sessions.facade import DurableServices
from opencomputer.server.services.sessions.tools import Tools
from opencomputer.server.settings import Settings


def compose_durable(settings: Settings, clock: Clock, client_tokens: ClientTokens) -> DurableServices:
    return DurableServices(
        client_tokens=client_tokens,
        tools=Tools(clock, settings.tool_event_level),
    )
