"""The OpenAPI documents say what the routes take, from whom, and how they refuse."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from tests.support.node import Api

pytestmark = pytest.mark.anyio

DOCUMENTS = ["/api/openapi.json", "/v3/openapi.json"]


async def document(api: Api, path: str) -> dict[str, Any]:
    return (await api.client.get(path)).json()


@pytest.mark.parametrize("path", DOCUMENTS)
async def test_whatever_it_refers_to_is_there(api: Api, path: str) -> None:
    found = await document(api, path)
    referred = set(re.findall(r'"#/components/schemas/([^"]+)"', json.dumps(found)))
    assert referred
    assert referred <= set(found["components"]["schemas"])
    schemes = {name for each in operations(found).values() for one in each["security"] for name in one}
    assert schemes == set(found["components"]["securitySchemes"])


@pytest.mark.parametrize("path", DOCUMENTS)
async def test_every_operation_says_how_it_refuses_and_nothing_that_we_never_answer(
    api: Api, path: str
) -> None:
    for operation in operations(await document(api, path)).values():
        assert {"4XX", "5XX"} <= set(operation["responses"])
        assert "422" not in operation["responses"]


async def test_bodies_are_told_though_we_read_them_ourselves(api: Api) -> None:
    found = await document(api, "/api/openapi.json")
    creating = operations(found)["POST", "/api/sandboxes"]
    assert creating["requestBody"] == {
        "required": False,
        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/CreateSandbox"}}},
    }
    assert "memoryMB" in found["components"]["schemas"]["CreateSandbox"]["properties"]
    written = operations(found)["PUT", "/api/sandboxes/{sandbox_id}/files"]
    assert [*written["requestBody"]["content"]] == ["application/octet-stream"]
    assert "path" in {each["name"] for each in written["parameters"]}


async def test_bodies_of_sessions_are_told_too(api: Api) -> None:
    found = operations(await document(api, "/v3/openapi.json"))
    creating = found["POST", "/v3/sessions"]
    assert creating["requestBody"]["required"]
    assert "Idempotency-Key" in {each["name"] for each in creating["parameters"]}
    reading = found["GET", "/v3/sessions/{session_id}/events"]
    assert {"after", "level", "type", "stream"} <= {each["name"] for each in reading["parameters"]}


async def test_it_says_which_credential_opens_a_route(api: Api) -> None:
    found = operations(await document(api, "/api/openapi.json"))

    def opened_by(method: str, path: str) -> set[str]:
        return {name for each in found[method, path]["security"] for name in each}

    assert opened_by("GET", "/healthz") == set()
    assert opened_by("POST", "/api/sandboxes") == {"apiKey", "bearer"}
    assert opened_by("POST", "/api/sandboxes/{sandbox_id}/exec/run") == {"apiKey", "bearer", "sandboxToken"}
    # The signature in the address is what opens it.
    assert opened_by("GET", "/api/sandboxes/{sandbox_id}/files/download") == set()


def operations(document: dict[str, Any]) -> dict[tuple[str, str], dict[str, Any]]:
    return {
        (method.upper(), path): operation
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    }
