"""One Claude session in a sandbox, followed and steered live."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from opencomputer.sdk.agent_events import (
    AgentEvent,
    LineSplitter,
    TextDecoder,
    TurnTracker,
    describe_foreign_line,
    event_from,
)
from opencomputer.sdk.callbacks import ExitCallback, SignalCallback, notify
from opencomputer.sdk.exec_session import ended, kill_session
from opencomputer.sdk.texts import listed_if_given
from opencomputer.wire import frames

if TYPE_CHECKING:
    from opencomputer.sdk.answers import JsonObject
    from opencomputer.sdk.frame_stream import FrameStream
    from opencomputer.sdk.sandbox_link import SandboxLink
    from opencomputer.wire.frames import Frame

EventCallback = Callable[[AgentEvent], object]
ErrorCallback = Callable[[str], object]

_BUFFERED_EVENTS = 10_000
_LAST_WORDS_SECONDS = 2.0


@dataclass(frozen=True)
class AgentSettings:
    """What a session can be configured with. None leaves a setting as it is."""

    model: str | None = None
    system_prompt: str | None = None
    allowed_tools: Sequence[str] | None = None
    permission_mode: str | None = None
    max_turns: int | None = None
    cwd: str | None = None
    mcp_servers: Mapping[str, object] | None = None
    resume: str | None = None

    def wire(self) -> JsonObject:
        """The given settings under their names on the wire."""
        settings: JsonObject = {
            "model": self.model,
            "systemPrompt": self.system_prompt,
            "allowedTools": listed_if_given(self.allowed_tools, "allowed_tools"),
            "permissionMode": self.permission_mode,
            "maxTurns": self.max_turns,
            "cwd": self.cwd,
            "mcpServers": self.mcp_servers,
            "resume": self.resume,
        }
        return {name: value for name, value in settings.items() if value is not None}


@dataclass(frozen=True)
class AgentCallbacks:
    """What to call for each kind of news from an agent session."""

    on_event: EventCallback | None = None
    on_error: ErrorCallback | None = None
    on_exit: ExitCallback | None = None
    on_scrollback_end: SignalCallback | None = None


class AgentSession:
    """An attached agent. Its events go to the callbacks in the background, awaited or not.

    Events can also be had by `collect_events` or by `async for`; either takes each event once, the last ten
    thousand from before included. Closing detaches and leaves the agent running; so does leaving the session
    as a context manager.
    """

    def __init__(
        self,
        link: SandboxLink,
        session_id: str,
        stream: FrameStream,
        callbacks: AgentCallbacks,
        *,
        prompts: int = 0,
    ) -> None:
        self.session_id = session_id
        self._link = link
        self._stream = stream
        self._callbacks = callbacks
        self._turns = TurnTracker(prompts)
        self._lines = LineSplitter()
        self._errors = TextDecoder()
        self._buffer: deque[AgentEvent] = deque(maxlen=_BUFFERED_EVENTS)
        self._collectors: list[list[AgentEvent]] = []
        self._replayed = False
        self._closing = False
        self._changed = asyncio.Event()
        self._outgoing: asyncio.Queue[bytes] = asyncio.Queue()
        self._exit: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._reader = asyncio.create_task(self._read(), name=f"agent session {session_id}")
        self._writer = asyncio.create_task(self._write(), name=f"input of agent session {session_id}")
        # Not in the reader itself: one that is cancelled before its first step never runs at all.
        self._reader.add_done_callback(self._settle)
        link.detach_at_close(self.close)

    @property
    def sandbox_id(self) -> str:
        """The sandbox the agent runs in."""
        return self._link.sandbox_id

    @property
    def done(self) -> asyncio.Future[int]:
        """The exit code of the agent's process, to be awaited; -1 when the link ended before it did."""
        return asyncio.shield(self._exit)

    @property
    def idle(self) -> bool:
        """Whether the agent has nothing to do, as far as is known here."""
        return self._replayed and self._turns.idle

    def send_prompt(self, text: str) -> None:
        """Give the agent more to do; while a turn runs, this waits for the next. Does not block."""
        if not text:
            raise ValueError("a prompt cannot be empty")
        self._turns.prompted()
        self._command({"type": "prompt", "text": text})

    def interrupt(self) -> None:
        """Stop the turn that runs; the session goes on. Does not block."""
        self._command({"type": "interrupt"})

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
        settings = AgentSettings(
            model, system_prompt, allowed_tools, permission_mode, max_turns, cwd, mcp_servers, resume
        )
        self._command({"type": "configure"} | settings.wire())

    async def wait(self, until: Literal["idle", "exit"] = "idle") -> int:
        """Wait until the agent has nothing left to do, or with "exit" until its process ends.

        Returns the process's exit code when it ended, -1 when the link was lost; otherwise how the last turn
        ended: 0, 1 after an error, 130 after an interrupt.
        """
        while not self._exit.done():
            if until == "idle" and self.idle:
                return self._turns.turn_code
            await self._changed.wait()
        return self._exit.result()

    async def collect_events(self) -> list[AgentEvent]:
        """Wait as `wait` does and return the events until then, buffered ones first. Callbacks still fire."""
        collected = list(self._buffer)
        self._buffer.clear()
        self._collectors.append(collected)
        try:
            await self.wait()
        except BaseException:
            # Nobody gets them: the next to ask does.
            if len(self._collectors) == 1:
                self._buffer = deque([*collected, *self._buffer], maxlen=_BUFFERED_EVENTS)
            raise
        finally:
            self._collectors.remove(collected)
        return collected

    async def __aiter__(self) -> AsyncGenerator[AgentEvent]:
        """Yield the events, buffered ones first, until the process ends or the link is lost."""
        while self._buffer or not self._exit.done():
            if self._buffer:
                yield self._buffer.popleft()
            else:
                await self._changed.wait()

    async def kill(self, signal: int = 9) -> None:
        """Send a signal to the agent's process group, with or without a link; nothing once it has ended."""
        if not ended(self._exit):
            await kill_session(self._link, "agent", self.session_id, signal)

    async def close(self) -> None:
        """Detach, once what was queued is sent. The agent goes on; may be called again."""
        self._closing = True
        if not self._exit.done():
            with suppress(TimeoutError):
                async with asyncio.timeout(_LAST_WORDS_SECONDS):
                    await self._outgoing.join()
        self._writer.cancel()
        inside_callback = asyncio.current_task() is self._reader
        if not inside_callback:
            self._reader.cancel()
        await self._stream.aclose()
        if not inside_callback:
            await asyncio.wait([self._reader])

    async def __aenter__(self) -> AgentSession:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _command(self, command: JsonObject) -> None:
        if not self._exit.done():
            self._outgoing.put_nowait(json.dumps(command).encode() + b"\n")

    async def _write(self) -> None:
        while True:
            line = await self._outgoing.get()
            await self._stream.send(line, in_background=True)
            self._outgoing.task_done()

    async def _read(self) -> None:
        async for frame in self._stream.frames():
            await self._take(frame)
            self._announce_change()
        for line in self._lines.flush():
            await self._take_line(line)
        code = self._turns.exit_code(session_over=self._stream.session_over)
        if not self._closing:
            await notify(self._callbacks.on_exit, code)
        self._exit.set_result(code)

    def _settle(self, _: asyncio.Task[None]) -> None:
        if not self._exit.done():
            self._exit.set_result(frames.UNKNOWN_EXIT_CODE)
        self._announce_change()
        self._writer.cancel()

    async def _take(self, frame: Frame) -> None:
        match frame.channel:
            case frames.STDOUT:
                for line in self._lines.feed(frame.payload):
                    await self._take_line(line)
            case frames.STDERR:
                await self._report(self._errors.feed(frame.payload))
            case frames.EXIT:
                self._turns.exit_frame(frames.exit_code(frame.payload))
            case frames.SCROLLBACK_END:
                self._replayed = True
                self._turns.replay_ended()
                await notify(self._callbacks.on_scrollback_end)
            case _:
                pass

    async def _take_line(self, line: bytes) -> None:
        event = event_from(line)
        if event is None:
            await self._report(describe_foreign_line(line))
            return
        for collected in self._collectors:
            collected.append(event)
        if not self._collectors:
            self._buffer.append(event)
        await notify(self._callbacks.on_event, event)
        self._turns.heard(event)

    async def _report(self, text: str) -> None:
        if text:
            await notify(self._callbacks.on_error, text)

    def _announce_change(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()
