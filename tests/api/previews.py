"""What tests of previews share."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

import httpx

from tests.support.node import Api

CHALLENGE = 'Bearer realm="preview"'


async def gated(api: Api, **auth: str) -> tuple[str, str]:
    """A sandbox that asks for a token, and the token."""
    made = await api.create(previewAuth=auth)
    return made["sandboxID"], made["previewAuthToken"]


async def grant(api: Api, sandbox: str, port: int, **fields: int) -> dict[str, Any]:
    answer = await api.post(f"/sandboxes/{sandbox}/preview/{port}/grants", json=fields)
    assert answer.status_code == 201, answer.text
    return answer.json()


def link(made: dict[str, Any]) -> str:
    parts = urlsplit(str(made["url"]))
    return f"{parts.path}?{parts.query}"


def secret_of(made: dict[str, Any]) -> str:
    return link(made).partition("=")[2]


def cookie_of(answer: httpx.Response) -> str:
    return answer.headers["set-cookie"].partition(";")[0]


def refused(answer: httpx.Response, code: str = "preview_unauthorized") -> bool:
    assert answer.headers["www-authenticate"] == CHALLENGE
    return (answer.status_code, answer.json()["code"]) == (401, code)
