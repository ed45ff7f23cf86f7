# Generated from src/opencomputer/sdk/pty.py by scripts/generate_blocking.py
"""The blocking twins of `opencomputer.sdk.pty`; see there."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from opencomputer.blocking.support.threads import off_loop
from opencomputer.blocking.support.twin import Twin, view

if TYPE_CHECKING:
    import builtins

    from opencomputer.sdk import pty as sdk
    from opencomputer.sdk.callbacks import BytesCallback
    from opencomputer.sdk.pty import TerminalInfo


class PtySession(Twin):
    """An attached terminal. Used as a context manager it is ended at the end."""

    @property
    def session_id(self) -> str:
        return self._original.session_id

    @property
    def sandbox_id(self) -> str:
        """The sandbox the terminal is in."""
        return self._original.sandbox_id

    def send(self, data: str | bytes) -> None:
        """Type into the terminal. Raises EOFError once it has ended."""
        self._run(self._original.send(data))

    def recv(self) -> bytes:
        """The next output. Raises EOFError when the terminal has ended, LinkLostError when the link broke.

        Not to be used together with `on_output`, which takes all output.
        """
        return self._run(self._original.recv())

    def resize(self, cols: int, rows: int) -> None:
        """Tell the terminal its new size."""
        self._run(self._original.resize(cols, rows))

    def reconnect(self) -> None:
        """Open a link that was lost again. Output goes on where it was, as far as the server retained it.

        Raises what opening a socket raises, `NotFoundError` when the terminal is gone. Not for terminals with
        `on_output`.
        """
        self._run(self._original.reconnect())

    def detach(self) -> None:
        """Let go of the terminal without ending it; `Pty.attach` takes it up again."""
        self._run(self._original.detach())

    def close(self) -> None:
        """End the terminal and what runs in it; may be called again."""
        self._run(self._original.close())

    def __enter__(self) -> PtySession:
        return self._self_or(PtySession, self._run(self._original.__aenter__()))

    def __exit__(self, *_: object) -> None:
        self._run(self._original.__aexit__(*_))

    @property
    def _original(self) -> sdk.PtySession:
        return cast("sdk.PtySession", self._wrapped)


class Pty(Twin):
    """Opens terminals in one sandbox."""

    def create(
        self,
        cols: int = 80,
        rows: int = 24,
        on_output: BytesCallback | None = None,
        *,
        shell: str | None = None,
    ) -> PtySession:
        """Start a login shell on a new terminal and attach to it.

        Output goes to `on_output` in the background, or is taken with `recv` when none is given.
        """
        return view(
            PtySession, self._run(self._original.create(cols, rows, off_loop(on_output), shell=shell))
        )

    def list(self) -> builtins.list[TerminalInfo]:
        """The sandbox's terminals, ended ones for five minutes more."""
        return self._run(self._original.list())

    def attach(
        self, session_id: str, on_output: BytesCallback | None = None, *, replay: bool = False
    ) -> PtySession:
        """Take up a terminal that exists already, from whoever has it.

        Only output that nobody has seen comes; with `replay` first all that the server retained.
        """
        return view(
            PtySession, self._run(self._original.attach(session_id, off_loop(on_output), replay=replay))
        )

    @property
    def _original(self) -> sdk.Pty:
        return cast("sdk.Pty", self._wrapped)
