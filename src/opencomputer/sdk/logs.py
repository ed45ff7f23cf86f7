"""What programs of a sandbox write, line by line."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from opencomputer.sdk import answers
from opencomputer.sdk.control_plane import Call
from opencomputer.sdk.errors import UnavailableError, UnexpectedAnswerError
from opencomputer.sdk.http import httpx
from opencomputer.sdk.texts import listed

if TYPE_CHECKING:
    from opencomputer.sdk.answers import Described
    from opencomputer.sdk.sandbox_link import SandboxLink

RECONNECT_SECONDS = 1.0
_SILENCE_SECONDS = 45.0
"""The server says something every quarter of a minute."""
_END = "end"


@dataclass(frozen=True)
class LogQuery:
    """Which lines. Without `tail` those up to now, else also those to come."""

    tail: bool = True
    since: datetime | timedelta | str | None = None
    until: datetime | str | None = None
    text: str = ""
    sources: Sequence[str] = ()
    limit: int = 0

    def params(self) -> dict[str, str]:
        """As the server wants them."""
        given = {
            "since": _moment(self.since),
            "until": _moment(self.until),
            "q": self.text,
            "source": ",".join(listed(self.sources, "sources")),
            "limit": str(self.limit or ""),
        }
        return {"tail": str(self.tail).lower()} | {name: value for name, value in given.items() if value}


@dataclass(frozen=True)
class LogLine:
    """One line. `source` is `var_log`, `exec_stdout`, `exec_stderr` or `agent`.

    The last line of a command is empty and has its `exit_code`. `lost`: how many lines before this one could
    not be kept, at least. `data` is the event as the server sent it.
    """

    time: str
    source: str
    line: str
    path: str | None = None
    exec_id: str | None = None
    command: str | None = None
    args: tuple[str, ...] = ()
    exit_code: int | None = None
    lost: int = 0
    data: Described = field(default_factory=dict[str, object], repr=False, compare=False)


class SandboxLogs:
    """The part of a `Sandbox` that is about its log."""

    _link: SandboxLink

    async def logs(
        self,
        *,
        tail: bool = True,
        since: datetime | timedelta | str | None = None,
        until: datetime | str | None = None,
        text: str = "",
        sources: Sequence[str] = (),
        limit: int = 0,
    ) -> AsyncGenerator[LogLine]:
        """What its commands, sessions and agents wrote, and what was added below /var/log, oldest first.

        With `tail` it goes on with what comes, over lost connections and restarts of the server, until the
        sandbox is killed. Of what there is, the newest `limit` lines (1000 when 0). `since` may be a time
        ago; `text` has to be in the line. Reading does not wake a sandbox that sleeps.
        """
        query = LogQuery(tail, since, until, text, sources, limit)
        async with aclosing(follow(self._link, query)) as lines:
            async for line in lines:
                yield line


async def follow(link: SandboxLink, query: LogQuery) -> AsyncGenerator[LogLine]:
    """The lines of the query, each once. The first connection fails as any call does."""
    seen, opened = "", False
    while True:
        try:
            async with link.plane.stream(_call(link, query, seen)) as response:
                answers.check_events(response)
                opened = True
                async with aclosing(_frames(response.aiter_bytes())) as frames:
                    async for frame in frames:
                        if frame.event == _END:
                            return
                        seen = frame.id or seen
                        yield _line(frame.data)
            if not query.tail:
                return
        except (httpx.TransportError, UnavailableError):
            if not (opened and query.tail):
                raise
        await asyncio.sleep(RECONNECT_SECONDS)


def _call(link: SandboxLink, query: LogQuery, seen: str) -> Call:
    headers = {"Accept": "text/event-stream"} | ({"Last-Event-ID": seen} if seen else {})
    return Call(
        "GET", link.path("logs"), params=query.params(), headers=headers, timeout_seconds=_SILENCE_SECONDS
    )


@dataclass(frozen=True)
class _Frame:
    id: str
    event: str
    data: bytes


async def _frames(pieces: AsyncIterator[bytes]) -> AsyncGenerator[_Frame]:
    """The complete frames that have data, in whatever pieces they come."""
    rest = b""
    async for piece in pieces:
        *complete, rest = (rest + piece).split(b"\n\n")
        for frame in complete:
            fields = dict(line.split(b": ", 1) for line in frame.split(b"\n") if b": " in line)
            if b"data" in fields:
                yield _Frame(
                    fields.get(b"id", b"").decode(), fields.get(b"event", b"").decode(), fields[b"data"]
                )


def _line(data: bytes) -> LogLine:
    try:
        event = answers.json_object(json.loads(data))
    except ValueError as error:
        raise UnexpectedAnswerError("a line of the log is no JSON") from error
    return LogLine(
        time=answers.text(event, "_time"),
        source=answers.text(event, "source"),
        line=answers.text(event, "line"),
        path=answers.text(event, "path") or None,
        exec_id=answers.text(event, "exec_id") or None,
        command=answers.text(event, "command") or None,
        args=tuple(answers.texts(event, "argv")),
        exit_code=answers.whole(event, "exit_code"),
        lost=answers.whole(event, "lost") or 0,
        data=event,
    )


def _moment(moment: datetime | timedelta | str | None) -> str:
    if isinstance(moment, timedelta):
        return f"{max(0, round(moment.total_seconds()))}s"
    return moment.isoformat() if isinstance(moment, datetime) else moment or ""
