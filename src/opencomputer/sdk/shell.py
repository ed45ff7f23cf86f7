"""A bash in the sandbox that keeps its state from one command to the next."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from contextlib import suppress

from opencomputer.sdk.callbacks import BytesCallback, StreamCallbacks, notify
from opencomputer.sdk.errors import NotFoundError, SandboxStoppedError, ShellBusyError, ShellClosedError
from opencomputer.sdk.exec_session import ExecSession
from opencomputer.sdk.process_result import ProcessResult
from opencomputer.sdk.shell_protocol import RunOutput, script
from opencomputer.wire.frames import UNKNOWN_EXIT_CODE

Attach = Callable[[str, StreamCallbacks], Awaitable[ExecSession]]

_CLOSE_SECONDS = 5.0


class Shell:
    """Directory, variables, functions and options persist over successive runs, as in a terminal tab.

    One command runs at a time. A command's standard input is empty. There is no limit of time on a run: one
    that is given up by the caller (`asyncio.timeout`) goes on, and the shell stays busy until it has ended.
    Used as a context manager the shell is closed at the end.
    """

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        self._session: ExecSession | None = None
        self._active: _Run | None = None
        self._exit_code: int | None = None
        self._replayed = asyncio.Event()

    @classmethod
    async def open(cls, session_id: str, attach: Attach) -> Shell:
        """Attach to a bash session and wait until its earlier output has gone by."""
        shell = cls(session_id)
        callbacks = StreamCallbacks(
            on_stdout=shell._on_stdout,
            on_stderr=shell._on_stderr,
            on_exit=shell._on_exit,
            on_scrollback_end=shell._replayed.set,
        )
        shell._session = await attach(session_id, callbacks)
        await shell._replayed.wait()
        return shell

    async def run(
        self, cmd: str, on_stdout: BytesCallback | None = None, on_stderr: BytesCallback | None = None
    ) -> ProcessResult:
        """Run a command, which may have many lines, and return its exit code and its output alone.

        Raises `ShellBusyError` while another command runs, and `ShellClosedError` when the shell has ended or
        ends through this command (`exit`). An empty command does nothing and succeeds.
        """
        session = self._open_session()
        if self._active:
            raise ShellBusyError
        token = secrets.token_hex(16)
        lines = script(cmd, token)
        run = self._active = _Run(RunOutput(token), on_stdout, on_stderr)
        # Half a script would spoil the shell, so that sending it goes on when the caller is cancelled.
        run.sending = asyncio.create_task(session.send_stdin(lines))
        await asyncio.shield(run.sending)
        return await asyncio.shield(run.result)

    async def close(self) -> None:
        """End the shell, and a command that still runs in it; may be called again."""
        session, self._session = self._session, None
        if session is None:
            return
        idle = self._active is None
        self._end(UNKNOWN_EXIT_CODE)
        if idle:
            await session.send_stdin("exit\n")
        await asyncio.wait([session.done], timeout=_CLOSE_SECONDS if idle else 0)
        try:
            with suppress(NotFoundError, SandboxStoppedError):
                await session.kill()
        finally:
            await session.close()

    async def __aenter__(self) -> Shell:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _open_session(self) -> ExecSession:
        if self._session is None or self._exit_code is not None:
            raise ShellClosedError(UNKNOWN_EXIT_CODE if self._exit_code is None else self._exit_code)
        return self._session

    async def _on_stdout(self, chunk: bytes) -> None:
        run = self._active
        if run and self._replayed.is_set():
            await _pass_on(run.output.feed_stdout(chunk), run.on_stdout)
            self._finish_if_complete(run)

    async def _on_stderr(self, chunk: bytes) -> None:
        run = self._active
        if run and self._replayed.is_set():
            await _pass_on(run.output.feed_stderr(chunk), run.on_stderr)
            self._finish_if_complete(run)

    def _on_exit(self, code: int) -> None:
        self._end(code)
        self._replayed.set()

    def _finish_if_complete(self, run: _Run) -> None:
        exit_code = run.output.exit_code
        if exit_code is None:
            return
        self._active = None
        if not run.result.done():
            run.result.set_result(ProcessResult(exit_code, run.output.stdout, run.output.stderr))

    def _end(self, code: int) -> None:
        if self._exit_code is None:
            self._exit_code = code
        run, self._active = self._active, None
        if run and not run.result.done():
            run.result.set_exception(ShellClosedError(code))
            run.result.exception()  # Marks it as seen: the caller may have given up waiting for it.


class _Run:
    def __init__(
        self, output: RunOutput, on_stdout: BytesCallback | None, on_stderr: BytesCallback | None
    ) -> None:
        self.output = output
        self.on_stdout = on_stdout
        self.on_stderr = on_stderr
        self.sending: asyncio.Task[None] | None = None
        self.result: asyncio.Future[ProcessResult] = asyncio.get_running_loop().create_future()


async def _pass_on(data: bytes, callback: BytesCallback | None) -> None:
    if data:
        await notify(callback, data)
