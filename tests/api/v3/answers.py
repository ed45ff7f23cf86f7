"""What answers of /v3 look like."""

from __future__ import annotations

from typing import Any

import httpx


def error_of(answer: httpx.Response, status: int, code: str, param: str | None = None) -> dict[str, Any]:
    """The error of an answer, which is in the one shape that they all have."""
    assert answer.status_code == status, answer.text
    assert list(answer.json()) == ["error"]
    error: dict[str, Any] = answer.json()["error"]
    assert error["type"] == error["code"] == code, error
    assert error["message"]
    assert "Value error" not in error["message"]
    assert error["request_id"].startswith("req_")
    assert error["request_id"] == answer.headers["X-Request-Id"]
    if param is not None:
        assert error["param"] == param, error
    return error


def ok(answer: httpx.Response, status: int = 200) -> Any:
    assert answer.status_code == status, answer.text
    return answer.json()
