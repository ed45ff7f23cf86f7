"""Exec and agent sessions of the fake: a ring of frames, followers, and something that produces output."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress

from opencomputer.wire import frames
from opencomputer.wire.frames import Frame


class FakeSession:
    """A session that says what the test makes it say."""

    def __init__(self, session_id: str, argv: Sequence[str] = ("scripted",)) -> None:
        self.session_id = session_id
        self.argv = list(argv)
        self.exit_code: int | None = None
        self.ring: list[Frame] = []
        self.stdin = bytearray()
        self.stdin_ended = False
        self.killed_with: list[int] = []
        self.drop_followers = False
        self.followers: set[asyncio.Queue[Frame | None]] = set()
        self.on_input: Callable[[bytes], None] | None = None

    def say(self, channel: int, data: bytes) -> None:
        """Produce output: kept in the ring and sent to all followers."""
        frame = Frame(channel, data)
        self.ring.append(frame)
        self._send(frame)

    def turn_end(self, code: int) -> None:
        """Send an exit frame that is not the end of the process."""
        self._send(Frame(frames.EXIT, frames.encode_exit(code)[1:]))

    def exit(self, code: int) -> None:
        """End the session."""
        if self.exit_code is None:
            self.exit_code = code
            self._send(None)

    def drop(self) -> None:
        """Break the links of all followers without a word."""
        self.drop_followers = True
        self._send(None)

    async def feed(self, data: bytes) -> None:
        """Take standard input."""
        self.stdin += data
        if self.on_input:
            self.on_input(data)

    def end_input(self) -> None:
        """Take the end of standard input."""
        self.stdin_ended = True

    async def kill(self, signal: int) -> None:
        """Take a signal; the scripted session dies of any."""
        self.killed_with.append(signal)
        self.exit(128 + signal)

    async def follow(self) -> AsyncIterator[Frame]:
        """The replay, its end mark, then live frames; ends with the session or when followers are dropped."""
        queue: asyncio.Queue[Frame | None] = asyncio.Queue()
        replay = list(self.ring)
        self.drop_followers = False
        if self.exit_code is None:
            self.followers.add(queue)
        try:
            for frame in replay:
                yield frame
            yield Frame(frames.SCROLLBACK_END, b"")
            if self.exit_code is None or not queue.empty():
                while (frame := await queue.get()) is not None:
                    yield frame
        finally:
            self.followers.discard(queue)

    def _send(self, frame: Frame | None) -> None:
        for queue in self.followers:
            queue.put_nowait(frame)


class ProcessSession(FakeSession):
    """A session that is a process of the test's own."""

    def __init__(self, session_id: str, argv: Sequence[str]) -> None:
        super().__init__(session_id, argv)
        self._process: asyncio.subprocess.Process | None = None
        self._watcher: asyncio.Task[None] | None = None

    async def start(self, env: dict[str, str], cwd: str | None) -> None:
        """Start the process."""
        pipe = asyncio.subprocess.PIPE
        self._process = await asyncio.create_subprocess_exec(
            *self.argv, stdin=pipe, stdout=pipe, stderr=pipe, env=env, cwd=cwd, start_new_session=True
        )
        self._watcher = asyncio.create_task(self._watch(self._process))

    async def feed(self, data: bytes) -> None:
        if self._process and self._process.stdin and self.exit_code is None:
            self._process.stdin.write(data)

    def end_input(self) -> None:
        super().end_input()
        if self._process and self._process.stdin:
            self._process.stdin.close()

    async def kill(self, signal: int) -> None:
        self.killed_with.append(signal)
        if self._process:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal)

    async def stop(self) -> None:
        """End the process for good."""
        await self.kill(9)
        if self._watcher:
            await self._watcher

    async def _watch(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout
        assert process.stderr
        await asyncio.gather(
            self._pump(frames.STDOUT, process.stdout), self._pump(frames.STDERR, process.stderr)
        )
        code = await process.wait()
        self.exit(code if code >= 0 else 128 - code)

    async def _pump(self, channel: int, pipe: asyncio.StreamReader) -> None:
        while data := await pipe.read(4096):
            self.say(channel, data)


class AgentScript(FakeSession):
    """An agent that answers each prompt with a fixed set of events."""

    def __init__(self, session_id: str, answer: Sequence[dict[str, object]]) -> None:
        super().__init__(session_id, ["claude-agent-wrapper"])
        self.answer = list(answer)
        self.commands: list[Mapping[str, object]] = []
        self.deaf = False
        self._unfinished = b""

    def event(self, **fields: object) -> None:
        """Say one event."""
        self.say(frames.STDOUT, json.dumps(fields).encode() + b"\n")

    async def feed(self, data: bytes) -> None:
        *lines, self._unfinished = (self._unfinished + data).split(b"\n")
        for line in lines:
            if not self.deaf:
                self.command(json.loads(line))

    def command(self, command: Mapping[str, object]) -> None:
        """Take one command line of the runner's protocol."""
        self.commands.append(command)
        if command["type"] == "prompt":
            for event in self.answer:
                self.event(**event)
            if self.answer and self.answer[-1]["type"] == "turn_complete":
                self.turn_end(0)
        elif command["type"] == "interrupt":
            self.event(type="interrupted")
            self.turn_end(130)
        elif command["type"] == "configure":
            self.event(type="configured")
