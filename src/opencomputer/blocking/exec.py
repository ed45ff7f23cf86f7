# Generated from src/opencomputer/sdk/exec.py by scripts/generate_blocking.py
"""The blocking twins of `opencomputer.sdk.exec`; see there."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from opencomputer.blocking.exec_session import ExecSession
from opencomputer.blocking.shell import Shell
from opencomputer.blocking.support.threads import off_loop
from opencomputer.blocking.support.twin import Twin, view

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from opencomputer.sdk import exec as sdk
    from opencomputer.sdk.callbacks import BytesCallback, ExitCallback, SignalCallback
    from opencomputer.sdk.process_result import ExecSessionInfo, ProcessResult


class Exec(Twin):
    """Starts, follows, lists and kills programs in one sandbox."""

    def run(
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
        return self._run(self._original.run(command, timeout, env, cwd, client_timeout=client_timeout))

    def start(
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
        return view(
            ExecSession,
            self._run(
                self._original.start(
                    command,
                    args,
                    env,
                    cwd,
                    timeout,
                    max_run_after_disconnect,
                    off_loop(on_stdout),
                    off_loop(on_stderr),
                    off_loop(on_exit),
                    off_loop(on_scrollback_end),
                    reconnect=reconnect,
                )
            ),
        )

    background = start
    """The same as `start`, for code that wants to say that it does not wait."""

    def attach(
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
        return view(
            ExecSession,
            self._run(
                self._original.attach(
                    session_id,
                    off_loop(on_stdout),
                    off_loop(on_stderr),
                    off_loop(on_exit),
                    off_loop(on_scrollback_end),
                    reconnect=reconnect,
                )
            ),
        )

    def shell(self, cwd: str | None = None, env: Mapping[str, str] | None = None) -> Shell:
        """Open a bash that keeps its directory, variables and functions from one `run` to the next."""
        return view(Shell, self._run(self._original.shell(cwd, env)))

    def reattach_shell(self, session_id: str) -> Shell:
        """Take up a shell that `shell` opened earlier, without its earlier output. Nobody else may use it."""
        return view(Shell, self._run(self._original.reattach_shell(session_id)))

    def list(self) -> list[ExecSessionInfo]:
        """All sessions of the sandbox, ended ones for five minutes more."""
        return self._run(self._original.list())

    def kill(self, session_id: str, signal: int = 9) -> None:
        """Send a signal to a session's process group; an ended session is no error."""
        self._run(self._original.kill(session_id, signal))

    @property
    def _original(self) -> sdk.Exec:
        return cast("sdk.Exec", self._wrapped)
