"""A server that answers what a test wrote down, and remembers what it was asked."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import httpx

from opencomputer.sdk.durable.connection import Connection, Options
from opencomputer.sdk.durable.endpoint import DurableEndpoint

Answer = httpx.Response | httpx.TransportError


class Answers:
    """Gives the answers in turn."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.requests: list[httpx.Request] = []
        self.slept: list[float] = []

    @asynccontextmanager
    async def connection(self) -> AsyncGenerator[Connection]:
        async with httpx.AsyncClient(transport=httpx.MockTransport(self._answer), trust_env=False) as client:
            endpoint = DurableEndpoint("http://node.test/v3", "osb_key")
            yield Connection(endpoint, Options(client=client, sleep=self._sleep))

    @property
    def last(self) -> httpx.Request:
        return self.requests[-1]

    @property
    def body(self) -> dict[str, Any]:
        """What the last request sent."""
        return json.loads(self.last.content)

    async def _sleep(self, seconds: float) -> None:
        self.slept.append(seconds)

    def _answer(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        answer = self.answers.pop(0)
        if isinstance(answer, httpx.TransportError):
            raise answer
        return answer


def refusal(status: int, code: str, param: str | None = None, **headers: str) -> httpx.Response:
    """An error in the shape of `/v3`."""
    error = {"type": code, "code": code, "message": f"it is {code}", "param": param, "request_id": "req_1"}
    return httpx.Response(status, json={"error": error}, headers=headers)


def session_body(**fields: object) -> dict[str, object]:
    return {"id": "ses_1", "status": "queued", "head": 1, "input_cursor": 0, "agent_id": "agt_1", **fields}


def event_body(seq: int, type: str = "agent.message", **body: object) -> dict[str, object]:
    return {
        "id": f"evt_{seq}",
        "seq": seq,
        "ts": "2026-01-02T03:04:05.000Z",
        "session": "ses_1",
        "actor": {"id": "agent", "type": "agent"},
        "type": type,
        "level": "user",
        "body": body,
        "turn_id": "trn_1",
        "refs": {},
    }
