"""Whatever is sent, the answer is one of the contract's, and the node goes on."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.api.routes import OFFERED, filled
from tests.support.node import Api
from tests.support.rounds import rounds

pytestmark = pytest.mark.anyio

_leaf = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20)
)
_json = st.recursive(
    _leaf, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
)
_FIELDS = [
    *("timeout", "envs", "metadata", "memoryMB", "cpuCount", "diskMB", "alias", "image", "cmd", "args"),
    *("cwd", "signal", "cols", "rows", "shell", "prompt", "model", "mcpServers", "maxTurns", "text", "name"),
    *("maxRunAfterDisconnect", "networkEnabled", "allowedTools"),
    *("kind", "promoteToFull", "retentionPolicy", "secretStore", "count", "script", "description"),
]
_body = st.dictionaries(st.sampled_from(_FIELDS), _json, max_size=5)
_path = st.text(max_size=40)

# Without the one that would end the sandbox which all use.
WITH_BODY = [
    (method, path)
    for method, path in OFFERED
    if method in ("POST", "PUT", "DELETE") and (method, path) != ("DELETE", "/sandboxes/{id}")
]


# These do so much that not every body may do it: their bodies are looked at all the same.
_COSTLY = re.compile(r"/(fork|hibernate|wake|reboot|power-cycle|checkpoints|timeout)$")


def check(sent: object, status: int, content: bytes) -> None:
    assert status < 500 or status in (501, 503), (sent, status, content)
    if status >= 400:
        error: dict[str, Any] = json.loads(content)
        assert isinstance(error["error"], str)
        assert isinstance(error["code"], str)


@pytest.mark.parametrize(("method", "path"), WITH_BODY)
async def test_any_object_is_accepted_or_refused_in_the_contracts_shape(
    api: Api, sandbox: str, method: str, path: str
) -> None:
    @settings(max_examples=rounds(8))
    @given(_body)
    def bodies(body: dict[str, Any]) -> None:
        collected.append({**body, "templateID": "none"})

    collected: list[dict[str, Any]] = []
    bodies()
    target = filled(path, "sb-00000000" if _COSTLY.search(path) else sandbox)
    for body in collected:
        answer = await api.request(method, target, content=json.dumps(body).encode())
        check(body, answer.status_code, answer.content)


@pytest.mark.parametrize(("method", "path"), [("POST", "/sandboxes"), ("POST", "/sandboxes/{id}/exec/run")])
async def test_any_bytes_are_accepted_or_refused_in_the_contracts_shape(
    api: Api, sandbox: str, method: str, path: str
) -> None:
    @settings(max_examples=rounds(30))
    @given(st.binary(min_size=1, max_size=60).filter(lambda data: data.strip() not in (b"", b"{}")))
    def bodies(body: bytes) -> None:
        collected.append(body)

    collected: list[bytes] = []
    bodies()
    for body in collected:
        answer = await api.request(method, filled(path, sandbox), content=body)
        check(body, answer.status_code, answer.content)


@pytest.mark.parametrize(
    ("method", "route"), [("GET", "files"), ("GET", "files/list"), ("POST", "files/mkdir"), ("PUT", "files")]
)
async def test_any_path_is_accepted_or_refused_in_the_contracts_shape(
    api: Api, sandbox: str, method: str, route: str
) -> None:
    @settings(max_examples=rounds(20))
    @given(_path)
    def paths(path: str) -> None:
        collected.append(path)

    collected: list[str] = []
    paths()
    for path in collected:
        # Below the home: this machine is no machine.
        params = {"path": f"any/{path.replace('..', '')}"}
        answer = await api.request(method, f"/sandboxes/{sandbox}/{route}", params=params)
        check(path, answer.status_code, answer.content if answer.status_code >= 400 else b"")


@pytest.mark.parametrize("query", ["status", "limit", "cursor"])
async def test_any_query_is_accepted_or_refused_in_the_contracts_shape(api: Api, query: str) -> None:
    @settings(max_examples=rounds(20))
    @given(st.text(max_size=40))
    def texts(text: str) -> None:
        collected.append(text)

    collected: list[str] = []
    texts()
    for text in collected:
        answer = await api.get("/sandboxes", params={query: text})
        check(text, answer.status_code, answer.content)
