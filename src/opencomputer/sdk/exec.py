"""Running programs in a sandbox: `sandbox.exec`."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from opencomputer.sdk import answers
from opencomputer.sdk.answers import JsonObject
from opencomputer.sdk.callbacks import BytesCallback, ExitCallback, SignalCallback, StreamCallbacks
from opencomputer.sdk.control_plane import get, post_once, with_timeout
from opencomputer.sdk.errors import (
    ExecFailedError,
    ExecTimeoutError,
    NotFoundError,
    UnavailableError,
    UnexpectedAnswerError,
)
from opencomputer.sdk.exec_session import ExecSession, kill_session
from opencomputer.sdk.frame_stream import FrameStream
from opencomputer.sdk.http import httpx
from opencomputer.sdk.process_result import ExecSessionInfo, ProcessResult
from opencomputer.sdk.shell import Shell
from opencomputer.sdk.texts import listed

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from opencomputer.sdk.control_plane import Call
    from opencomputer.sdk.sandbox_link import SandboxLink

_ANSWER_MARGIN_SECONDS = 10
_OUTAGE_SECONDS = 120.0


class Exec:
    """Starts, follows, lists and kills programs in one sandbox."""

    def __init__(
        self,
        link: SandboxLink,
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._link = link
        self._sleep = sleep
        self._now = now

    async def run(
        self,
        command: str,
        timeout: int = 60,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        *,
        client_timeout: float | None = None,
    ) -> ProcessResult:
        """Run a command with `sh -c` and return how it ended, whatever its exit code.

        After `timeout` seconds the server kills it (exit code 137); 0 means never. `client_timeout` limits
        only the waiting: `ExecTimeoutError` is raised and the command goes on. Raises `ExecFailedError` when
        it could not be started.
        """
        body: JsonObject = {"cmd": "sh", "args": ["-c", command], "timeout": timeout}
        body |= _environment(env, cwd)
        handle = _Handle()
        deadline = asyncio.timeout(client_timeout)
        try:
            async with deadline:
                return _result(await self._run(body, timeout, handle))
        except TimeoutError as error:
            if client_timeout is None or not deadline.expired():
                raise
            raise ExecTimeoutError(handle.exec_id, client_timeout) from error

    async def start(
        self,
        command: str,
        args: Sequence[str] | None = None,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        timeout: int | None = None,
        max_run_after_disconnect: int | None = None,
        on_stdout: BytesCallback | None = None,
        on_stderr: BytesCallback | None = None,
        on_exit: ExitCallback | None = None,
        on_scrollback_end: SignalCallback | None = None,
        *,
        reconnect: bool = False,
    ) -> ExecSession:
        """Start a program and follow it live; returns as soon as it is followed.

        With `args` the command is executed directly; without, it may be a shell line. `timeout` kills it
        after so many seconds, `max_run_after_disconnect` so long after the last follower left; both are
        unlimited by default. With `reconnect` a lost link is opened again, without repeating what was
        delivered.
        """
        body: JsonObject = {"cmd": command} | _environment(env, cwd)
        if args:
            body["args"] = listed(args, "args")
        if timeout is not None:
            body["timeout"] = timeout
        if max_run_after_disconnect is not None:
            body["maxRunAfterDisconnect"] = max_run_after_disconnect
        callbacks = StreamCallbacks(on_stdout, on_stderr, on_exit, on_scrollback_end)
        return await self._attach(await self._create(body), callbacks, reconnect=reconnect)

    background = start
    """The same as `start`, for code that wants to say that it does not wait."""

    async def attach(
        self,
        session_id: str,
        on_stdout: BytesCallback | None = None,
        on_stderr: BytesCallback | None = None,
        on_exit: ExitCallback | None = None,
        on_scrollback_end: SignalCallback | None = None,
        *,
        reconnect: bool = False,
    ) -> ExecSession:
        """Follow a session that exists already.

        What the server kept of its earlier output comes first, then `on_scrollback_end`, then what is new. A
        session that ended less than five minutes ago can still be attached.
        """
        callbacks = StreamCallbacks(on_stdout, on_stderr, on_exit, on_scrollback_end)
        return await self._attach(session_id, callbacks, reconnect=reconnect)

    async def shell(self, cwd: str | None = None, env: Mapping[str, str] | None = None) -> Shell:
        """Open a bash that keeps its directory, variables and functions from one `run` to the next."""
        body: JsonObject = {"cmd": "bash", "args": ["--noprofile", "--norc", "+m"]} | _environment(env, cwd)
        return await self.reattach_shell(await self._create(body))

    async def reattach_shell(self, session_id: str) -> Shell:
        """Take up a shell that `shell` opened earlier, without its earlier output. Nobody else may use it."""
        return await Shell.open(session_id, self._attach)

    async def list(self) -> list[ExecSessionInfo]:
        """All sessions of the sandbox, ended ones for five minutes more."""
        items = answers.json_objects(await self._link.plane.json(get(self._link.path("exec"))))
        return [_session_info(item) for item in items]

    async def kill(self, session_id: str, signal: int = 9) -> None:
        """Send a signal to a session's process group; an ended session is no error."""
        await kill_session(self._link, "exec", session_id, signal)

    async def _create(self, body: JsonObject) -> str:
        answer = await self._link.plane.json(post_once(self._link.path("exec"), body))
        return answers.required_text(answers.json_object(answer), "sessionID")

    async def _attach(
        self, session_id: str, callbacks: StreamCallbacks, *, reconnect: bool = False
    ) -> ExecSession:
        stream = FrameStream(self._link, session_id, reconnect=reconnect, sleep=self._sleep)
        await stream.open()
        return ExecSession(self._link, session_id, stream, callbacks)

    async def _run(self, body: JsonObject, timeout: int, handle: _Handle) -> JsonObject:
        call = post_once(self._link.path("exec", "run-async"), body)
        try:
            answer = answers.json_object(await self._link.plane.json(call))
        except NotFoundError:
            limit = timeout + _ANSWER_MARGIN_SECONDS if timeout else None
            blocking = with_timeout(post_once(self._link.path("exec", "run"), body), limit)
            return answers.json_object(await self._link.plane.json(blocking))
        handle.exec_id = answers.text(answer, "execId")
        if handle.exec_id:
            return await self._finished(handle.exec_id)
        return answer

    async def _finished(self, exec_id: str) -> JsonObject:
        started = self._now()
        last_answer = started
        while True:
            asked = self._now()
            answer = await self._poll(get(self._link.path("exec", exec_id, "result")), last_answer)
            now = self._now()
            if answer is not None:
                last_answer = now
                if not (answers.flag(answer, "running") or answers.flag(answer, "waking")):
                    return answer
            await self._sleep(poll_delay(waited=now - started, held=now - asked))

    async def _poll(self, call: Call, last_answer: float) -> JsonObject | None:
        """The result so far, or None in a passing outage: the command goes on while its server restarts."""
        try:
            return answers.json_object(await self._link.plane.json(call))
        except (httpx.TransportError, UnavailableError):
            if self._now() - last_answer > _OUTAGE_SECONDS:
                raise
            return None


@dataclass
class _Handle:
    """Names the command for the error of a caller's deadline, once the server has told its name."""

    exec_id: str = ""


def poll_delay(*, waited: float, held: float) -> float:
    """How long to wait before asking again for a result.

    A tenth of the time waited so far, from 200 ms to 2 s, so that a result is never noticed late by much. The
    server holds a request for a moment when there is no news, and that time counts.
    """
    return max(0.0, min(max(waited * 0.1, 0.2), 2.0) - held)


def _environment(env: Mapping[str, str] | None, cwd: str | None) -> JsonObject:
    fields: JsonObject = {}
    if env:
        fields["envs"] = env
    if cwd:
        fields["cwd"] = cwd
    return fields


def _result(answer: JsonObject) -> ProcessResult:
    if error := answers.text(answer, "error"):
        raise ExecFailedError(error)
    exit_code = answers.whole(answer, "exitCode")
    if exit_code is None:
        raise UnexpectedAnswerError("the server's answer has no exitCode")
    return ProcessResult(
        exit_code=exit_code,
        stdout=answers.text(answer, "stdout"),
        stderr=answers.text(answer, "stderr"),
        truncated=answers.flag(answer, "truncated"),
    )


def _session_info(item: JsonObject) -> ExecSessionInfo:
    return ExecSessionInfo(
        session_id=answers.required_text(item, "sessionID"),
        sandbox_id=answers.text(item, "sandboxID"),
        command=answers.text(item, "command"),
        args=answers.texts(item, "args"),
        running=answers.flag(item, "running"),
        exit_code=answers.whole(item, "exitCode"),
        started_at=answers.text(item, "startedAt"),
        attached_clients=answers.whole(item, "attachedClients") or 0,
    )
