"""How the parts of `HostedAgents` talk to their server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self, TypeVar

from opencomputer.sdk import answers
from opencomputer.sdk.control_plane import Call, ControlPlane, get
from opencomputer.sdk.durable.records import Page
from opencomputer.sdk.endpoint import Endpoint
from opencomputer.sdk.paths import path_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

    from opencomputer.sdk.answers import JsonObject
    from opencomputer.sdk.durable.records import Record

T = TypeVar("T", bound="Record")


class HostedClient:
    """The connection, and what every part needs of it."""

    def __init__(self, api_key: str | None = None, base_url: str | None = None) -> None:
        self._plane = ControlPlane(Endpoint.of_hosted_agents(api_key, base_url))

    async def close(self) -> None:
        """Close the connections; may be called again."""
        await self._plane.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _object(self, call: Call) -> JsonObject:
        response = await self._plane.send(call)
        return answers.json_object(answers.parsed(response)) if response.content else {}

    async def _listed(
        self, path: str, name: str, kind: type[T], params: Mapping[str, str] | None = None
    ) -> list[T]:
        answer = await self._plane.json(get(path, params))
        found = answers.json_object(answer).get(name) if answers.is_json_object(answer) else answer
        return [kind.read(each) for each in answers.json_objects(found)]

    async def _paged(
        self, path: str, name: str, kind: type[T], limit: int | None, before: str | None
    ) -> Page[T]:
        """A page of what is listed newest first; the next one holds what was before it."""
        params = {} if limit is None else {"limit": str(limit)}
        answer = await self._object(get(path, params if before is None else {**params, "before": before}))
        return Page(
            [kind.read(each) for each in answers.json_objects(answer.get(name))],
            answers.text(answer, "next_before") or None,
            lambda earlier: self._paged(path, name, kind, limit, earlier),
        )

    async def _deleted(self, path: str) -> None:
        await self._plane.send(Call("DELETE", path))


def agent_path(agent_id: str, *parts: str) -> str:
    """A path below one agent, each part encoded."""
    return path_of("agents", agent_id, *parts)
