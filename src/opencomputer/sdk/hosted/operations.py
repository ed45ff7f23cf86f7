"""Changes of hosted agents that go on in the background, and what is told of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from opencomputer.sdk import answers
from opencomputer.sdk.control_plane import Call, get
from opencomputer.sdk.errors import OperationFailedError
from opencomputer.sdk.hosted.connection import HostedClient, agent_path
from opencomputer.sdk.hosted.records import HostedEvent, HostedLogs, Operation

if TYPE_CHECKING:
    from opencomputer.sdk.answers import JsonObject
    from opencomputer.sdk.durable.records import Page

    Sleep = Callable[[float], Awaitable[None]]

_LONGEST_WAIT_SECONDS = 600.0


class HostedOperations(HostedClient):
    """The part of `HostedAgents` that is about how its agents do."""

    async def operations(
        self, agent_id: str, *, limit: int | None = None, before: str | None = None
    ) -> Page[Operation]:
        """An agent's operations, newest first; `before` is a time (RFC 3339)."""
        return await self._paged(agent_path(agent_id, "operations"), "operations", Operation, limit, before)

    async def get_operation(self, agent_id: str, operation_id: str) -> Operation:
        """One operation. Raises `NotFoundError`."""
        answer = await self._object(get(agent_path(agent_id, "operations", operation_id)))
        return Operation.read(answer.get("operation") or answer)

    async def wait_operation(
        self,
        agent_id: str,
        operation_id: str,
        *,
        timeout: float | None = _LONGEST_WAIT_SECONDS,
        interval: float = 1.0,
        sleep: Sleep = asyncio.sleep,
    ) -> Operation:
        """Ask every `interval` seconds until an operation has ended, and return it.

        Raises `OperationFailedError` when it failed or was canceled, `TimeoutError` after `timeout` seconds.
        """
        async with asyncio.timeout(timeout):
            while (operation := await self.get_operation(agent_id, operation_id)).active:
                await sleep(interval)
        if operation.outcome != "succeeded":
            raise OperationFailedError(operation.id, operation.phase, _reason(operation))
        return operation

    async def events(
        self, agent_id: str, *, limit: int | None = None, before: str | None = None
    ) -> Page[HostedEvent]:
        """What happened to an agent, newest first, at most 200 a page; `before` is a time (RFC 3339)."""
        return await self._paged(agent_path(agent_id, "events"), "events", HostedEvent, limit, before)

    async def restart(self, agent_id: str) -> Operation | None:
        """Start the agent's program again; changed secrets are seen from then on."""
        return operation_in(await self._object(Call("POST", agent_path(agent_id, "restart"))))

    async def logs(self, agent_id: str, *, tail: int = 300) -> HostedLogs:
        """The last lines of the log of the agent's program."""
        return HostedLogs.read(await self._object(get(agent_path(agent_id, "logs"), {"tail": str(tail)})))


def operation_in(answer: JsonObject) -> Operation | None:
    """The operation that an answer tells of, in it or as itself."""
    sent = answer.get("operation")
    if answers.is_json_object(sent):
        return Operation.read(sent)
    return Operation.read(answer) if {"id", "state"} <= answer.keys() else None


def _reason(operation: Operation) -> str:
    error = operation.error
    if answers.is_json_object(error):
        return answers.text(error, "message") or answers.text(error, "code")
    return error if isinstance(error, str) else operation.message or ""
