"""Previews: what is asked, and what is made of the answers."""

from __future__ import annotations

import pytest

from opencomputer import Sandbox
from tests.support.fake_node import FakeNode

pytestmark = pytest.mark.anyio


async def test_a_record_is_made_listed_and_deleted(node: FakeNode, sandbox: Sandbox) -> None:
    made = await sandbox.create_preview_url(3000)
    assert made["hostname"] == sandbox.get_preview_domain(3000)
    own = await sandbox.create_preview_url(80, domain="apps.example.com", auth_config={})
    assert own["customHostname"] == f"{sandbox.id}-p80.apps.example.com"
    bodies = [seen.body for seen in node.requests("POST", "/preview")]
    assert bodies == [
        {"port": 3000, "authConfig": {}},
        {"port": 80, "authConfig": {}, "domain": "apps.example.com"},
    ]
    assert [each["port"] for each in await sandbox.list_preview_urls()] == [3000, 80]
    for _ in range(2):
        await sandbox.delete_preview_url(3000)
    assert [each["port"] for each in await sandbox.list_preview_urls()] == [80]


async def test_a_new_token_is_remembered(sandbox: Sandbox) -> None:
    assert sandbox.preview_auth_token == ""
    token = await sandbox.rotate_preview_auth_token()
    assert sandbox.preview_auth_token == token == "a-new-preview-token"


@pytest.mark.parametrize(
    ("wish", "sent"),
    [
        ({}, {"scheme": "bearer"}),
        ({"token": "auto"}, {"scheme": "bearer", "token": "auto"}),
        ({"token": "sixteen letters!"}, {"scheme": "bearer", "token": "sixteen letters!"}),
    ],
)
async def test_a_sandbox_may_ask_for_a_token_from_the_start(
    node: FakeNode, wish: dict[str, object], sent: dict[str, object]
) -> None:
    async with Sandbox.create(api_key=node.api_key, api_url=node.url, preview_auth=wish) as made:
        asked = node.requests("POST", "/sandboxes")[-1].body
        assert isinstance(asked, dict)
        assert asked["previewAuth"] == sent
        assert made.preview_auth_token == "a-preview-token"


async def test_grants_are_made_listed_and_taken_back(node: FakeNode, sandbox: Sandbox) -> None:
    made = await sandbox.create_preview_grant(3000, ttl=60)
    assert str(made["url"]).startswith(f"http://{sandbox.get_preview_domain(3000)}:8080/?")
    assert node.requests("POST", "/grants")[0].body == {"ttl": 60}
    [listed] = await sandbox.list_preview_grants(3000)
    assert "url" not in listed
    for _ in range(2):
        await sandbox.revoke_preview_grant(3000, str(made["id"]))
    assert await sandbox.list_preview_grants(3000) == []
