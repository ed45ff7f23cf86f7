# Generated from src/opencomputer/sdk/hosted/instances.py by scripts/generate_blocking.py
"""The blocking twins of `opencomputer.sdk.hosted.instances`; see there."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from opencomputer.blocking.hosted.connection import HostedClient
from opencomputer.blocking.support.stream import Stream
from opencomputer.blocking.support.twin import Twin
from opencomputer.sdk.hosted import instances as sdk

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from opencomputer.sdk.hosted.records import HostedInstance, ReplyPart


class HostedInstances(HostedClient):
    """The part of `HostedAgents` that is about instances."""

    def __init__(self, api_key: str | None = None, base_url: str | None = None) -> None:
        Twin.__init__(self, sdk.HostedInstances(api_key, base_url))

    def create_instance(self, agent_id: str, *, metadata: Mapping[str, str] | None = None) -> HostedInstance:
        """A new instance, which is made in the background; `metadata` is for finding it again."""
        return self._run(self._original.create_instance(agent_id, metadata=metadata))

    def list_instances(
        self, agent_id: str, *, metadata: Mapping[str, str] | None = None
    ) -> list[HostedInstance]:
        """An agent's instances, or those with this metadata."""
        return self._run(self._original.list_instances(agent_id, metadata=metadata))

    def get_instance(self, agent_id: str, instance_id: str) -> HostedInstance:
        """One instance. Raises `NotFoundError`."""
        return self._run(self._original.get_instance(agent_id, instance_id))

    def delete_instance(self, agent_id: str, instance_id: str) -> None:
        """End an instance and its sandbox. Raises `NotFoundError`."""
        self._run(self._original.delete_instance(agent_id, instance_id))

    def send_message(
        self,
        agent_id: str,
        instance_id: str,
        content: str | None = None,
        *,
        messages: Sequence[Mapping[str, object]] | None = None,
        conversation_id: str | None = None,
    ) -> Stream[ReplyPart]:
        """Say something, and yield the reply as it comes: parts of the type text or error, and at last done.

        Either `content`, which continues the conversation, or `messages` (`[{"role", "content"}]`), which
        stand for all of it. The instance is woken when it sleeps. Raises `UnavailableError` when it is not
        ready after half a minute, and `httpx.RemoteProtocolError` when the reply breaks off.
        """
        return Stream(
            self._original.send_message(
                agent_id, instance_id, content, messages=messages, conversation_id=conversation_id
            )
        )

    @property
    def _original(self) -> sdk.HostedInstances:
        return cast("sdk.HostedInstances", self._wrapped)
