"""Skills over HTTP: in as an archive, or inline; out as a list."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import pytest

from tests.api.v3.test_agents import ask
from tests.api.v3.test_foundation import error_of
from tests.support.archives import GOOD, zipped
from tests.support.node import Api

pytestmark = pytest.mark.anyio

ZIP = {"Content-Type": "application/zip"}


@pytest.fixture
async def claude(api: Api) -> AsyncGenerator[str]:
    """The path of an agent whose runtime has skills."""
    body = {"name": "with skills", "model": "anthropic/claude-sonnet-5", "prompt": "one"}
    made = await ask(api, "POST", "/agents", 201, body)
    yield f"/agents/{made['id']}"
    await ask(api, "DELETE", f"/agents/{made['id']}", 204)


async def test_skills_come_in_as_an_archive_and_go_again(api: Api, claude: str) -> None:
    put = await api.client.put(f"/v3{claude}/skills", content=zipped(GOOD), headers=ZIP)
    assert put.status_code == 200, put.text
    assert put.json()["revision"]["number"] == 2
    shown = await ask(api, "GET", f"{claude}/skills", 200)
    assert shown["revision"]["number"] == 2
    assert [(each["name"], each["description"], len(each["files"])) for each in shown["skills"]] == [
        ("bare", None, 1),
        ("greeting", "How to greet.", 2),
    ]
    revision = await ask(api, "GET", f"{claude}/revisions/2", 200)
    assert revision["skill_bundle_digest"] == shown["skill_bundle_digest"]
    assert revision["files"][0] == {"path": "bare/SKILL.md", "mode": 0o644, "size": 16 + 1}
    changed = await ask(api, "PATCH", claude, 200, {"prompt": "two"})
    assert changed["revision"] == 3
    assert (await ask(api, "GET", f"{claude}/skills", 200))["skills"] == shown["skills"]
    files = [{"path": path, "content": content, "mode": "0644"} for path, content in GOOD.items()]
    inline = {"input": {"type": "inline", "prompt": "two", "skills": files}}
    same = await ask(api, "POST", f"{claude}/deployments", 201, inline)
    assert (same["deployment"]["result"], same["deployment"]["revision"]["number"]) == ("deduped", 3)
    removed = await ask(api, "DELETE", f"{claude}/skills", 200)
    assert (removed["state"], removed["revision"]["number"]) == ("ready", 4)
    assert (await ask(api, "GET", f"{claude}/skills", 200))["skills"] == []


async def test_archives_that_are_refused_change_nothing(api: Api, claude: str) -> None:
    before = await ask(api, "GET", claude, 200)
    refused: list[tuple[bytes, dict[str, str], int, str]] = [
        (zipped(GOOD), {"Content-Type": "application/json"}, 415, "unsupported_media_type"),
        (zipped(GOOD), {}, 415, "unsupported_media_type"),
        (b"x" * ((1 << 20) + 1), ZIP, 413, "payload_too_large"),
        (b"", ZIP, 422, "invalid_skills"),
        (b"no archive", ZIP, 422, "invalid_skills"),
        (zipped({"../SKILL.md": "x"}), ZIP, 422, "invalid_skills"),
        (zipped({"a/SKILL.md": "x", "a/bomb": b"\0" * (9 << 20)}), ZIP, 422, "invalid_skills"),
    ]
    for content, headers, status, code in refused:
        answer = await api.client.put(f"/v3{claude}/skills", content=content, headers=headers)
        error_of(answer, status, code)
    assert await ask(api, "GET", claude, 200) == before


async def test_a_key_of_an_agent_is_kept_as_its_credential(api: Api, claude: str) -> None:
    changed: dict[str, Any] = await ask(api, "PATCH", claude, 200, {"key": "sk-canary-0123456789wxyz"})
    (kept,) = (await ask(api, "GET", "/credentials", 200))["data"]
    assert (kept["id"], kept["last4"], kept["is_default"]) == (changed["credential_id"], "wxyz", False)
    await ask(api, "DELETE", f"/credentials/{kept['id']}", 204)
    assert (await ask(api, "GET", claude, 200))["credential_id"] is None
