"""The rest of /v3, answered honestly: 501 `not_implemented`, for callers that are who they say."""

from __future__ import annotations

from fastapi import APIRouter

from opencomputer.server.domain.errors import NotSupported
from opencomputer.server.http.session_api.auth import OrgKey

router = APIRouter()

_AGENT = "/agents/{agent_id}"
_PARTS: dict[str, tuple[str, ...]] = {
    "importing agents": ("/agents/import",),
    "deploying from a repository": (
        f"{_AGENT}/deployment-source",
        f"{_AGENT}/deployment-source/{{rest:path}}",
    ),
    "access to repositories": (f"{_AGENT}/repository-access",),
    "Slack": (f"{_AGENT}/slack", f"{_AGENT}/slack/{{rest:path}}", "/slack/{rest:path}"),
    "configuration of Flue agents": (
        f"{_AGENT}/config",
        f"{_AGENT}/config/{{rest:path}}",
        f"{_AGENT}/secrets",
        f"{_AGENT}/secrets/{{rest:path}}",
        f"{_AGENT}/artifacts",
        f"{_AGENT}/artifacts/{{rest:path}}",
        f"{_AGENT}/source-artifacts",
    ),
    "watches": ("/sessions/{session_id}/watches", "/sessions/{session_id}/watches/{rest:path}"),
    "repositories": ("/repos", "/repos/{rest:path}"),
    "GitHub": ("/github/{rest:path}",),
}
_METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE"]


def _refuse(part: str) -> None:
    async def refuse(caller: OrgKey) -> None:
        raise NotSupported(f"{part}: not supported by this server yet")

    for path in _PARTS[part]:
        router.add_api_route(path, refuse, methods=_METHODS, include_in_schema=False)


for _part in _PARTS:
    _refuse(_part)
