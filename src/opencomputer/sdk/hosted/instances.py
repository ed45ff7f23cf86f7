"""Long-lived instances of hosted agents, and talking to them."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing

from opencomputer.sdk.control_plane import Call, get
from opencomputer.sdk.durable.bodies import set_members
from opencomputer.sdk.durable.streams import frames
from opencomputer.sdk.errors import UnexpectedAnswerError
from opencomputer.sdk.hosted.connection import HostedClient, agent_path
from opencomputer.sdk.hosted.records import HostedInstance, ReplyPart
from opencomputer.sdk.http import httpx

# A server says something every 15 seconds; after three missed times nobody is there any more.
_SILENCE_SECONDS = 45.0


class HostedInstances(HostedClient):
    """The part of `HostedAgents` that is about instances."""

    async def create_instance(
        self, agent_id: str, *, metadata: Mapping[str, str] | None = None
    ) -> HostedInstance:
        """A new instance, which is made in the background; `metadata` is for finding it again."""
        body = set_members(metadata=metadata)
        return HostedInstance.read(await self._object(Call("POST", _path(agent_id), json=body)))

    async def list_instances(
        self, agent_id: str, *, metadata: Mapping[str, str] | None = None
    ) -> list[HostedInstance]:
        """An agent's instances, or those with this metadata."""
        params = {f"metadata.{name}": value for name, value in (metadata or {}).items()}
        return await self._listed(_path(agent_id), "instances", HostedInstance, params)

    async def get_instance(self, agent_id: str, instance_id: str) -> HostedInstance:
        """One instance. Raises `NotFoundError`."""
        return HostedInstance.read(await self._object(get(_path(agent_id, instance_id))))

    async def delete_instance(self, agent_id: str, instance_id: str) -> None:
        """End an instance and its sandbox. Raises `NotFoundError`."""
        await self._deleted(_path(agent_id, instance_id))

    async def send_message(
        self,
        agent_id: str,
        instance_id: str,
        content: str | None = None,
        *,
        messages: Sequence[Mapping[str, object]] | None = None,
        conversation_id: str | None = None,
    ) -> AsyncGenerator[ReplyPart]:
        """Say something, and yield the reply as it comes: parts of the type text or error, and at last done.

        Either `content`, which continues the conversation, or `messages` (`[{"role", "content"}]`), which
        stand for all of it. The instance is woken when it sleeps. Raises `UnavailableError` when it is not
        ready after half a minute, and `httpx.RemoteProtocolError` when the reply breaks off.
        """
        if (content is None) == (messages is None):
            raise ValueError("give either content or messages")
        body = set_members(content=content, messages=messages, conversation_id=conversation_id)
        call = Call(
            "POST",
            _path(agent_id, instance_id, "messages"),
            json=body,
            headers={"Accept": "text/event-stream"},
            timeout_seconds=_SILENCE_SECONDS,
        )
        async with (
            self._plane.stream(call) as response,
            aclosing(frames(response.aiter_bytes())) as received,
        ):
            async for data in received:
                part = _part(data)
                yield part
                if part.type == "done":
                    return
        raise httpx.RemoteProtocolError("the reply broke off before it was done")


def _path(agent_id: str, *parts: str) -> str:
    return agent_path(agent_id, "instances", *parts)


def _part(data: bytes) -> ReplyPart:
    try:
        return ReplyPart.read(json.loads(data))
    except ValueError as error:
        raise UnexpectedAnswerError("a part of the reply is no JSON") from error
