# Generated from src/opencomputer/sdk/exec_session.py by scripts/generate_blocking.py
"""The blocking twins of `opencomputer.sdk.exec_session`; see there."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from opencomputer.blocking.support.twin import Twin

if TYPE_CHECKING:
    from concurrent.futures import Future

    from opencomputer.sdk import exec_session as sdk


class ExecSession(Twin):
    """One attached session. Its output goes to the callbacks in the background, waited for or not.

    Detaching with `close` leaves the program running. Used as a context manager it detaches at the end.
    """

    @property
    def session_id(self) -> str:
        return self._original.session_id

    @property
    def sandbox_id(self) -> str:
        """The sandbox the program runs in."""
        return self._original.sandbox_id

    @property
    def done(self) -> Future[int]:
        """The program's exit code, 128 + n when signal n ended it.

        It is -1 when the link ended without one: lost, or closed by `close`. Cancelling it cancels nothing
        else.
        """
        return self._begin(lambda: self._original.done)

    @property
    def link_end(self) -> str:
        """Why the link ended, in the server's words; "" while it lasts or where no reason was given."""
        return self._original.link_end

    def send_stdin(self, data: str | bytes) -> None:
        """Write to the program's standard input; nothing happens once it has ended."""
        self._run(self._original.send_stdin(data))

    def close_stdin(self) -> None:
        """Let the program find its standard input at its end, for all clients; what was sent comes first.

        Nothing happens once it has ended, and on servers that do not know of this.
        """
        self._run(self._original.close_stdin())

    def kill(self, signal: int = 9) -> None:
        """Send a signal to the program and the processes of its group; nothing happens once it has ended.

        That works without a link, too: after it was lost or closed.
        """
        self._run(self._original.kill(signal))

    def close(self) -> None:
        """Detach. The program goes on, for as long as `max_run_after_disconnect` allows; may be called again.

        `on_exit` is not called by this: the program has not ended.
        """
        self._run(self._original.close())

    def __enter__(self) -> ExecSession:
        return self._self_or(ExecSession, self._run(self._original.__aenter__()))

    def __exit__(self, *_: object) -> None:
        self._run(self._original.__aexit__(*_))

    @property
    def _original(self) -> sdk.ExecSession:
        return cast("sdk.ExecSession", self._wrapped)
