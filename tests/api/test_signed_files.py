"""Signed URLs: a file for whoever has the URL, and nothing else for anybody."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit

import httpx
import pytest

from opencomputer import Sandbox
from tests.api.state import hibernate, status
from tests.support.node import Api
from tests.support.waiting import ANSWER_SECONDS

pytestmark = pytest.mark.anyio

CONTENT = bytes(range(256)) * 4


@pytest.fixture(scope="module")
async def anybody(api: Api) -> AsyncGenerator[httpx.AsyncClient]:
    """Who has no key."""
    async with httpx.AsyncClient(timeout=ANSWER_SECONDS) as client:
        yield client


@pytest.fixture(scope="module")
async def written(api: Api, sandbox: str) -> str:
    """A file's path."""
    answer = await api.put(f"/sandboxes/{sandbox}/files?path=data.bin", content=CONTENT)
    assert answer.status_code == 204
    return "data.bin"


async def sign(api: Api, sandbox: str, operation: str, path: str, **fields: Any) -> dict[str, str]:
    answer = await api.post(f"/sandboxes/{sandbox}/files/{operation}-url", json={"path": path, **fields})
    assert answer.status_code == 200, answer.text
    return answer.json()


async def url_of(api: Api, sandbox: str, operation: str, path: str) -> str:
    return (await sign(api, sandbox, operation, path))["url"]


def changed(url: str, **parts: str | None) -> str:
    """The URL with other values in its query; None leaves one out."""
    split = urlsplit(url)
    query: dict[str, str | None] = {**dict(parse_qsl(split.query)), **parts}
    kept = {name: value for name, value in query.items() if value is not None}
    return split._replace(query=urlencode(kept)).geturl()


# What they are for


async def test_a_file_is_fetched_without_a_key(
    api: Api, sandbox: str, anybody: httpx.AsyncClient, written: str
) -> None:
    answer = await anybody.get(await url_of(api, sandbox, "download", written))
    assert (answer.status_code, answer.content) == (200, CONTENT)
    assert answer.headers["content-length"] == str(len(CONTENT))
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["content-disposition"].startswith('attachment; filename="data.bin"')
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cache-control"] == "no-store"


async def test_a_file_is_stored_without_a_key(api: Api, sandbox: str, anybody: httpx.AsyncClient) -> None:
    url = await url_of(api, sandbox, "upload", "new/folder/größe ☕+&.txt")
    for content in (b"first", b"second"):
        answer = await anybody.put(url, content=content)
        assert (answer.status_code, answer.content) == (204, b"")
        stored = await api.get(f"/sandboxes/{sandbox}/files", params={"path": "new/folder/größe ☕+&.txt"})
        assert stored.content == content


async def test_what_is_fetched_is_the_file_as_it_is_then(
    api: Api, sandbox: str, anybody: httpx.AsyncClient
) -> None:
    url = await url_of(api, sandbox, "download", "later")
    missing = await anybody.get(url)
    assert (missing.status_code, missing.json()["code"]) == (404, "file_not_found")
    await api.put(f"/sandboxes/{sandbox}/files?path=later", content=b"here now")
    assert (await anybody.get(url)).content == b"here now"


async def test_what_is_said_of_a_file_is_said_without_it(
    api: Api, sandbox: str, anybody: httpx.AsyncClient, written: str
) -> None:
    url = await url_of(api, sandbox, "download", written)
    whole, head = await anybody.get(url), await anybody.head(url, headers={"Range": "bytes=0-1"})
    assert (head.status_code, head.content) == (200, b"")
    for name in ("content-length", "content-type", "content-disposition", "accept-ranges"):
        assert head.headers[name] == whole.headers[name]


async def test_the_url_is_below_the_address_that_the_caller_used(api: Api, sandbox: str) -> None:
    answer = await api.post(
        f"/sandboxes/{sandbox}/files/download-url",
        json={"path": "/a b/c&d"},
        headers={"X-Forwarded-Proto": "https", "X-Forwarded-Host": "sandboxes.example"},
    )
    url: str = answer.json()["url"]
    assert url.startswith(
        f"https://sandboxes.example/api/sandboxes/{sandbox}/files/download?path=%2Fa%20b%2Fc%26d&expires="
    )
    assert len(parse_qs(urlsplit(url).query)["signature"][0]) == 64


async def test_our_own_client_makes_and_revokes_them(
    api: Api, sandbox: str, anybody: httpx.AsyncClient
) -> None:
    made = await Sandbox.connect(sandbox, api_url=api.url, api_key=api.key)
    try:
        assert (await anybody.put(await made.upload_url("by-sdk"), content=b"text")).status_code == 204
        url = await made.download_url("by-sdk", expires_in=60)
        assert (await anybody.get(url)).text == "text"
        await made.revoke_file_urls()
        assert (await anybody.get(url)).status_code == 403
        assert (await anybody.get(await made.download_url("by-sdk"))).text == "text"
    finally:
        await made.close()


# How long they live


@pytest.mark.parametrize(
    ("asked", "seconds"),
    [
        ({}, 3600),
        ({"expiresIn": None}, 3600),
        ({"expiresIn": 60}, 60),
        ({"expiresIn": 0}, 3600),
        ({"expiresIn": -1}, 3600),
        ({"expiresIn": 86400}, 86400),
        ({"expiresIn": 86401}, 86400),
        ({"expiresIn": 10**18}, 86400),
        ({"expiresIn": 10**40}, 86400),
    ],
)
@pytest.mark.parametrize("operation", ["download", "upload"])
async def test_a_life_is_an_hour_or_what_is_asked_for_but_a_day_at_most(
    api: Api, sandbox: str, operation: str, asked: dict[str, Any], seconds: int
) -> None:
    before = datetime.now(UTC)
    signed = await sign(api, sandbox, operation, "x", **asked)
    expires_at = datetime.fromisoformat(signed["expiresAt"])
    assert abs(expires_at - before - timedelta(seconds=seconds)) < timedelta(seconds=10)
    assert parse_qs(urlsplit(signed["url"]).query)["expires"] == [str(int(expires_at.timestamp()))]


@pytest.mark.parametrize("asked", ['"60"', "60.5", "1e18", "true", "NaN", "[]", "{}"])
async def test_a_life_that_is_no_whole_number_is_refused_by_name(api: Api, sandbox: str, asked: str) -> None:
    answer = await api.post(
        f"/sandboxes/{sandbox}/files/download-url", content=f'{{"path": "x", "expiresIn": {asked}}}'
    )
    assert answer.status_code == 400
    assert asked == "NaN" or answer.json()["field"] == "expiresIn"


@pytest.mark.parametrize("path", ["", "a\0b", "x" * 5000, 5, None])
async def test_a_path_that_is_none_is_not_signed(api: Api, sandbox: str, path: Any) -> None:
    answer = await api.post(f"/sandboxes/{sandbox}/files/upload-url", json={"path": path})
    assert (answer.status_code, answer.json()["field"]) == (400, "path")
    for body in (b"", b'{"path": "\\ud800"}', b'{"path": "\xff"}', b'["x"]'):
        answer = await api.post(f"/sandboxes/{sandbox}/files/download-url", content=body)
        assert answer.status_code == 400, body


# What they refuse


@pytest.mark.parametrize("expires", ["0", "1", "-5", "1700000000", "00000000001"])
async def test_an_expired_url_is_told_so_whatever_its_signature(
    api: Api, sandbox: str, anybody: httpx.AsyncClient, written: str, expires: str
) -> None:
    url = changed(await url_of(api, sandbox, "download", written), expires=expires)
    for signature in ("0" * 64, "nonsense"):
        answer = await anybody.get(changed(url, signature=signature))
        assert (answer.status_code, answer.json()["error"]) == (403, "this URL has expired")


@pytest.mark.parametrize(
    "parts",
    [
        {"path": None},
        {"path": ""},
        {"expires": None},
        {"expires": ""},
        {"expires": "soon"},
        {"expires": "NaN"},
        {"expires": "1e12"},
        {"expires": "4102444800.5"},
        {"expires": " 4102444800"},
        {"expires": "٤١٠٢٤٤٤٨٠٠"},
        {"signature": None},
        {"signature": ""},
    ],
)
async def test_what_is_missing_or_no_number_is_a_bad_request(
    api: Api, sandbox: str, anybody: httpx.AsyncClient, written: str, parts: dict[str, str | None]
) -> None:
    download = changed(await url_of(api, sandbox, "download", written), **parts)
    upload = changed(await url_of(api, sandbox, "upload", written), **parts)
    for answer in (await anybody.get(download), await anybody.put(upload, content=b"")):
        assert (answer.status_code, answer.json()["field"]) == (400, next(iter(parts)))


@pytest.mark.parametrize(
    "parts",
    [
        {"path": "other"},
        {"path": "./data.bin"},
        {"path": "data.bin\n"},
        {"expires": "4102444800"},
        {"expires": "9" * 19},
        {"expires": "9" * 5000},
        {"signature": "0" * 64},
        {"signature": "short"},
        {"signature": "größe"},
        {"signature": "\0"},
        {"signature": "A" * 10_000},
    ],
)
async def test_a_changed_url_opens_nothing(
    api: Api, sandbox: str, anybody: httpx.AsyncClient, written: str, parts: dict[str, str | None]
) -> None:
    url = changed(await url_of(api, sandbox, "download", written), **parts)
    answer = await anybody.get(url)
    assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")


async def test_spelling_a_signature_or_a_time_differently_changes_the_url(
    api: Api, sandbox: str, anybody: httpx.AsyncClient, written: str
) -> None:
    url = await url_of(api, sandbox, "download", written)
    query = parse_qs(urlsplit(url).query)
    for other in (
        changed(url, signature=query["signature"][0].upper()),
        changed(url, signature=query["signature"][0] + " "),
        changed(url, expires="0" + query["expires"][0]),
    ):
        assert (await anybody.get(other)).status_code == 403
    assert (await anybody.get(url)).status_code == 200


async def test_one_operation_does_not_permit_the_other(
    api: Api, sandbox: str, anybody: httpx.AsyncClient, written: str
) -> None:
    download = await url_of(api, sandbox, "download", written)
    upload = await url_of(api, sandbox, "upload", written)
    put = await anybody.put(download.replace("/download?", "/upload?"), content=b"overwritten")
    got = await anybody.get(upload.replace("/upload?", "/download?"))
    assert (put.status_code, got.status_code) == (403, 403)
    assert (await anybody.get(download)).content == CONTENT
    assert [(await anybody.get(upload)).status_code, (await anybody.put(download)).status_code] == [405, 405]


async def test_one_sandbox_does_not_permit_another(
    api: Api, sandbox: str, anybody: httpx.AsyncClient, written: str
) -> None:
    """And whether there is another is not told."""
    second = (await api.create())["sandboxID"]
    url = await url_of(api, sandbox, "download", written)
    answers = [await anybody.get(url.replace(sandbox, name)) for name in (second, "sb-00000000", "x")]
    assert [answer.status_code for answer in answers] == [403, 403, 403]
    assert len({answer.text for answer in answers}) == 1
    await api.delete(f"/sandboxes/{second}")


async def test_a_credential_is_no_signature(api: Api, sandbox: str, written: str) -> None:
    url = await url_of(api, sandbox, "download", written)
    assert (await api.client.get(changed(url, signature="0" * 64))).status_code == 403
    assert (await api.client.get(changed(url, signature=None))).status_code == 400


async def test_only_who_may_use_the_sandbox_can_make_them(
    api: Api, other: Api, sandbox: str, anybody: httpx.AsyncClient
) -> None:
    address = f"{api.url}/api/sandboxes/{sandbox}/files/download-url"
    assert (await anybody.post(address, json={"path": "x"})).status_code == 401
    assert (
        await other.post(f"/sandboxes/{sandbox}/files/download-url", json={"path": "x"})
    ).status_code == 404
    assert (await other.post(f"/sandboxes/{sandbox}/files/revoke-urls")).status_code == 404
    token = (await api.get(f"/sandboxes/{sandbox}")).json()["token"]
    assert (await anybody.post(f"{address}?token={token}", json={"path": "x"})).status_code == 200
    revoke = f"{api.url}/api/sandboxes/{sandbox}/files/revoke-urls?token={token}"
    assert (await anybody.post(revoke)).status_code == 403


async def test_a_revoked_url_stays_revoked_and_new_ones_work(
    api: Api, sandbox: str, anybody: httpx.AsyncClient, written: str
) -> None:
    old = await url_of(api, sandbox, "download", written)
    for _ in range(2):
        assert (await api.post(f"/sandboxes/{sandbox}/files/revoke-urls")).status_code == 204
        assert (await anybody.get(old)).status_code == 403
    assert (await anybody.get(await url_of(api, sandbox, "download", written))).status_code == 200


# What state the sandbox is in


async def test_they_wake_a_sandbox_and_only_when_they_are_right(api: Api, anybody: httpx.AsyncClient) -> None:
    sandbox = (await api.create())["sandboxID"]
    await api.put(f"/sandboxes/{sandbox}/files?path=note", content=b"saved")
    upload = await url_of(api, sandbox, "upload", "note")
    await hibernate(api, sandbox)
    download = await url_of(api, sandbox, "download", "note")
    for wrong in (
        changed(download, signature="0" * 64),
        changed(download, expires="1"),
        changed(download, expires="soon"),
        changed(download, path="other"),
        upload.replace("/upload?", "/download?"),
    ):
        assert (await anybody.get(wrong)).status_code in (400, 403)
    assert await status(api, sandbox) == "hibernated"
    assert (await anybody.get(download)).content == b"saved"
    assert await status(api, sandbox) == "running"
    await hibernate(api, sandbox)
    assert (await anybody.put(upload, content=b"new")).status_code == 204
    assert (await anybody.get(download)).content == b"new"
    await api.delete(f"/sandboxes/{sandbox}")
    assert [(await anybody.get(download)).status_code, (await anybody.put(upload)).status_code] == [410, 410]
    stopped = await api.post(f"/sandboxes/{sandbox}/files/download-url", json={"path": "x"})
    assert stopped.status_code == 410
