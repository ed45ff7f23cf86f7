"""Calls about a durable agent for which the SDK has no methods, as those for the secrets of its program."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opencomputer.cli import durable_targets as targets
from opencomputer.sdk.answers import is_json_object
from opencomputer.sdk.durable.connection import Request
from opencomputer.sdk.paths import path_of

if TYPE_CHECKING:
    from opencomputer.cli.session import Session
    from opencomputer.sdk.answers import JsonObject
    from opencomputer.sdk.durable.client import OpenComputer

_REPEATABLE = frozenset({"GET", "PUT", "DELETE"})


def call(
    session: Session, agent: str, method: str, *parts: str, json: JsonObject | None = None
) -> JsonObject:
    """Ask for something below an agent, by its id or name. A bare list counts as `data`."""

    async def work(durable: OpenComputer) -> JsonObject:
        path = path_of("agents", await targets.agent_id_of(durable, agent), *parts)
        response = await durable.connection.send(Request(method, path, method in _REPEATABLE, json))
        value: object = response.json() if response.content else {}
        return value if is_json_object(value) else {"data": value}

    return session.run_durable(work)
