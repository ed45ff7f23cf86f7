# Generated from src/opencomputer/sdk/agent_session.py by scripts/generate_blocking.py
"""The blocking twins of `opencomputer.sdk.agent_session`; see there."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from opencomputer.blocking.support.stream import Stream
from opencomputer.blocking.support.twin import Twin

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from concurrent.futures import Future
    from typing import Literal

    from opencomputer.sdk import agent_session as sdk
    from opencomputer.sdk.agent_events import AgentEvent


class AgentSession(Twin):
    """An attached agent. Its events go to the callbacks in the background, waited for or not.

    Events can also be had by `collect_events` or by a loop; either takes each event once, the last ten
    thousand from before included. Closing detaches and leaves the agent running; so does leaving the session
    as a context manager.
    """

    @property
    def session_id(self) -> str:
        return self._original.session_id

    @property
    def sandbox_id(self) -> str:
        """The sandbox the agent runs in."""
        return self._original.sandbox_id

    @property
    def done(self) -> Future[int]:
        """The exit code of the agent's process, -1 when the link ended before it did."""
        return self._begin(lambda: self._original.done)

    @property
    def idle(self) -> bool:
        """Whether the agent has nothing to do, as far as is known here."""
        return self._original.idle

    def send_prompt(self, text: str) -> None:
        """Give the agent more to do; while a turn runs, this waits for the next. Does not block."""
        self._run_there(lambda: self._original.send_prompt(text))

    def interrupt(self) -> None:
        """Stop the turn that runs; the session goes on. Does not block."""
        self._run_there(lambda: self._original.interrupt())

    def configure(
        self,
        model: str | None = None,
        system_prompt: str | None = None,
        allowed_tools: Sequence[str] | None = None,
        permission_mode: str | None = None,
        max_turns: int | None = None,
        cwd: str | None = None,
        mcp_servers: Mapping[str, object] | None = None,
        resume: str | None = None,
    ) -> None:
        """Change settings from the next turn on; what is not given stays. Does not block."""
        self._run_there(
            lambda: self._original.configure(
                model, system_prompt, allowed_tools, permission_mode, max_turns, cwd, mcp_servers, resume
            )
        )

    def wait(self, until: Literal["idle", "exit"] = "idle") -> int:
        """Wait until the agent has nothing left to do, or with "exit" until its process ends.

        Returns the process's exit code when it ended, -1 when the link was lost; otherwise how the last turn
        ended: 0, 1 after an error, 130 after an interrupt.
        """
        return self._run(self._original.wait(until))

    def collect_events(self) -> list[AgentEvent]:
        """Wait as `wait` does and return the events until then, buffered ones first. Callbacks still fire."""
        return self._run(self._original.collect_events())

    def __iter__(self) -> Stream[AgentEvent]:
        """Yield the events, buffered ones first, until the process ends or the link is lost."""
        return Stream(aiter(self._original))

    def kill(self, signal: int = 9) -> None:
        """Send a signal to the agent's process group, with or without a link; nothing once it has ended."""
        self._run(self._original.kill(signal))

    def close(self) -> None:
        """Detach, once what was queued is sent. The agent goes on; may be called again."""
        self._run(self._original.close())

    def __enter__(self) -> AgentSession:
        return self._self_or(AgentSession, self._run(self._original.__aenter__()))

    def __exit__(self, *_: object) -> None:
        self._run(self._original.__aexit__(*_))

    @property
    def _original(self) -> sdk.AgentSession:
        return cast("sdk.AgentSession", self._wrapped)
