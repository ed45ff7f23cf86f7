"""What commands and sessions may be asked for."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.node import Api

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("route", ["exec/run", "exec/run-async", "exec", "commands"])
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("cmd", ""),
        ("cmd", None),
        ("cmd", 5),
        ("cmd", ["ls"]),
        ("cmd", "a\0b"),
        ("args", "x"),
        ("args", [1]),
        ("args", [None]),
        ("args", ["a\0"]),
        ("envs", {"A": 1}),
        ("envs", {"=": "x"}),
        ("envs", {"A": "\0"}),
        ("envs", []),
        ("cwd", ""),
        ("cwd", "\0"),
        ("cwd", 5),
        ("timeout", -1),
        ("timeout", "60"),
        ("timeout", 0.5),
        ("timeout", 10**18),
        ("timeout", True),
    ],
)
async def test_an_invalid_field_is_refused_by_name(
    api: Api, sandbox: str, route: str, field: str, value: Any
) -> None:
    answer = await api.post(f"/sandboxes/{sandbox}/{route}", json={"cmd": "true", field: value})
    assert answer.status_code == 400, answer.text
    assert answer.json()["code"] == "invalid_request"
    assert answer.json()["field"].split(".")[0] in (field, "cmd" if field == "args" else field)


@pytest.mark.parametrize("value", [-1, "5", 1.5, 10**18, []])
async def test_a_session_lingers_for_whole_seconds(api: Api, sandbox: str, value: Any) -> None:
    answer = await api.post(
        f"/sandboxes/{sandbox}/exec", json={"cmd": "true", "maxRunAfterDisconnect": value}
    )
    assert (answer.status_code, answer.json()["field"]) == (400, "maxRunAfterDisconnect")


@pytest.mark.parametrize("route", ["exec/run", "exec/run-async", "exec"])
async def test_a_command_has_to_be_said(api: Api, sandbox: str, route: str) -> None:
    answer = await api.post(f"/sandboxes/{sandbox}/{route}")
    assert (answer.status_code, answer.json()["field"]) == (400, "cmd")


async def test_a_chunked_body_is_read_like_any_other(api: Api, sandbox: str) -> None:
    async def pieces() -> Any:
        for piece in (b'{"cmd"', b': "ec', b"ho chu", b'nked"}'):
            yield piece

    answer = await api.post(f"/sandboxes/{sandbox}/exec/run", content=pieces())
    assert answer.json()["stdout"] == "chunked\n"
