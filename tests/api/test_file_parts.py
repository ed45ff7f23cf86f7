"""Parts of files: what `Range` asks for, on every route that gives a file."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.support.node import Api
from tests.support.waiting import ANSWER_SECONDS

pytestmark = pytest.mark.anyio

CONTENT = bytes(range(256)) * 4


@pytest.fixture(scope="module")
async def written(api: Api, sandbox: str) -> str:
    """A file's path."""
    answer = await api.put(f"/sandboxes/{sandbox}/files?path=data.bin", content=CONTENT)
    assert answer.status_code == 204
    return "data.bin"


async def part_of(api: Api, sandbox: str, path: str, headers: dict[str, Any]) -> httpx.Response:
    """As the signed route gives it, which is what the other one gives too."""
    signed = await api.post(f"/sandboxes/{sandbox}/files/download-url", json={"path": path})
    async with httpx.AsyncClient(timeout=ANSWER_SECONDS) as anybody:
        by_url = await anybody.get(signed.json()["url"], headers=headers)
    by_key = await api.get(f"/sandboxes/{sandbox}/files", params={"path": path}, headers=headers)
    for name in ("content-length", "content-range", "accept-ranges"):
        assert by_key.headers.get(name) == by_url.headers.get(name)
    assert by_key.status_code == by_url.status_code
    return by_url


@pytest.mark.parametrize(
    ("asked", "first", "last"),
    [
        ("bytes=0-0", 0, 0),
        ("bytes=10-19", 10, 19),
        ("bytes=1000-", 1000, 1023),
        ("bytes=1000-999999", 1000, 1023),
        ("bytes=-24", 1000, 1023),
        ("bytes=-5000", 0, 1023),
        ("bytes=0-", 0, 1023),
        ("BYTES = 5 - 6", 5, 6),
        (f"bytes=7-{'9' * 60}", 7, 1023),
        (f"bytes=-{'9' * 60}", 0, 1023),
    ],
)
async def test_a_part_is_given_as_such(
    api: Api, sandbox: str, written: str, asked: str, first: int, last: int
) -> None:
    answer = await part_of(api, sandbox, written, {"Range": asked})
    assert (answer.status_code, answer.content) == (206, CONTENT[first : last + 1])
    assert answer.headers["content-range"] == f"bytes {first}-{last}/1024"
    assert answer.headers["content-length"] == str(last - first + 1)


@pytest.mark.parametrize("asked", ["bytes=1024-", "bytes=5000-6000", "bytes=-0", f"bytes={'9' * 60}-"])
async def test_a_part_that_is_not_there_is_not_satisfiable(
    api: Api, sandbox: str, written: str, asked: str
) -> None:
    answer = await part_of(api, sandbox, written, {"Range": asked})
    assert (answer.status_code, answer.json()["code"]) == (416, "range_not_satisfiable")
    assert answer.headers["content-range"] == "bytes */1024"


@pytest.mark.parametrize(
    "headers",
    [
        {"Range": "bytes=5-1"},
        {"Range": "bytes=-"},
        {"Range": "bytes=0-1,4-5"},
        {"Range": "lines=0-1"},
        {"Range": "bytes=a-b"},
        {"Range": "bytes=٠-١".encode()},
        {"Range": "bytes=0-1", "If-Range": '"a version"'},
    ],
)
async def test_what_asks_for_no_part_gets_all(
    api: Api, sandbox: str, written: str, headers: dict[str, Any]
) -> None:
    answer = await part_of(api, sandbox, written, headers)
    assert (answer.status_code, answer.content) == (200, CONTENT)
    assert "content-range" not in answer.headers


async def test_a_file_of_no_known_size_has_no_parts(api: Api, sandbox: str) -> None:
    answer = await part_of(api, sandbox, "/proc/self/status", {"Range": "bytes=0-1"})
    assert (answer.status_code, answer.text[:5]) == (200, "Name:")
    assert "accept-ranges" not in answer.headers


async def test_an_empty_file_has_no_part(api: Api, sandbox: str) -> None:
    await api.put(f"/sandboxes/{sandbox}/files?path=empty", content=b"")
    assert (await part_of(api, sandbox, "empty", {})).content == b""
    assert (await part_of(api, sandbox, "empty", {"Range": "bytes=0-"})).status_code == 416
