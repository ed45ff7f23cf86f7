# Generated from src/opencomputer/sdk/shell.py by scripts/generate_blocking.py
"""The blocking twins of `opencomputer.sdk.shell`; see there."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from opencomputer.blocking.support.threads import off_loop
from opencomputer.blocking.support.twin import Twin
from opencomputer.sdk import shell as sdk

if TYPE_CHECKING:
    from opencomputer.sdk.callbacks import BytesCallback
    from opencomputer.sdk.process_result import ProcessResult


class Shell(Twin):
    """Directory, variables, functions and options persist over successive runs, as in a terminal tab.

    One command runs at a time. A command's standard input is empty. There is no limit of time on a run: one
    that is given up by the caller (Ctrl-C, say) goes on, and the shell stays busy until it has ended.
    Used as a context manager the shell is closed at the end.
    """

    def __init__(self, session_id: str) -> None:
        super().__init__(sdk.Shell(session_id))

    @property
    def session_id(self) -> str:
        return self._original.session_id

    def run(
        self, cmd: str, on_stdout: BytesCallback | None = None, on_stderr: BytesCallback | None = None
    ) -> ProcessResult:
        """Run a command, which may have many lines, and return its exit code and its output alone.

        Raises `ShellBusyError` while another command runs, and `ShellClosedError` when the shell has ended or
        ends through this command (`exit`). An empty command does nothing and succeeds.
        """
        return self._run(self._original.run(cmd, off_loop(on_stdout), off_loop(on_stderr)))

    def close(self) -> None:
        """End the shell, and a command that still runs in it; may be called again."""
        self._run(self._original.close())

    def __enter__(self) -> Shell:
        return self._self_or(Shell, self._run(self._original.__aenter__()))

    def __exit__(self, *_: object) -> None:
        self._run(self._original.__aexit__(*_))

    @property
    def _original(self) -> sdk.Shell:
        return cast("sdk.Shell", self._wrapped)
