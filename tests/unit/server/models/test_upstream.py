"""Requests with somebody's own key: they go to that key's provider, and nothing of the caller's with them."""

from __future__ import annotations

import httpx
import pytest

from opencomputer.server.contracts.models import ModelRequest
from opencomputer.server.models.upstream import UpstreamModels
from tests.unit.server.models.asking import Answered, pieces
from tests.unit.server.models.test_anthropic import Upstream

pytestmark = pytest.mark.anyio


async def ask(models: UpstreamModels, provider: str, path: str, *headers: tuple[str, str]) -> Answered:
    request = ModelRequest("POST", path, "", headers, pieces(b'{"model": "m"}'))
    async with models.answer(provider, request, "sk-own") as response:
        body = b"".join([chunk async for chunk in response.chunks])
        return Answered(response.status, dict(response.headers), body)


async def test_a_key_is_sent_as_its_provider_wants_it() -> None:
    upstream = Upstream()
    models = UpstreamModels({"openai": "https://proxy.example/", "anthropic": None}, transport=upstream)
    headers = (("authorization", "Bearer placeholder"), ("session_id", "s"), ("x-made-up", "1"))
    assert (await ask(models, "openai", "/v1/responses", *headers)).status == 200
    assert (await ask(models, "anthropic", "/v1/messages")).status == 200
    to_openai, to_anthropic = upstream.requests
    assert str(to_openai.url) == "https://proxy.example/v1/responses"
    assert to_openai.headers["authorization"] == "Bearer sk-own"
    assert to_openai.headers["session_id"] == "s"
    assert "x-made-up" not in to_openai.headers
    assert str(to_anthropic.url) == "https://api.anthropic.com/v1/messages"
    assert to_anthropic.headers["x-api-key"] == "sk-own"
    assert "authorization" not in to_anthropic.headers


@pytest.mark.parametrize(("provider", "path"), [("openai", "/v1/files"), ("anthropic", "/v1/responses")])
async def test_only_the_providers_own_paths_for_models_pass(provider: str, path: str) -> None:
    upstream = Upstream()
    answer = await ask(UpstreamModels(transport=upstream), provider, path)
    assert answer.status == 404
    assert path in answer.json["error"]["message"]
    assert upstream.requests == []


async def test_failures_have_the_providers_shape() -> None:
    models = UpstreamModels(transport=Upstream(httpx.ConnectError("no")))
    answer = await ask(models, "openai", "/v1/responses")
    assert answer.status == 502
    assert answer.json["error"]["type"] == "server_error"
    await models.close()
