"""The Claude engine: the Claude Agent SDK with no tools but the session's own."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from ..agent_runner.claude import ClaudeEngine, ClaudeEngines
from ..agent_runner.engine import EngineFailed as EngineEnded
from .claude_options import engine_options, home_in, working_folder_in
from .engine import AWAITING_INPUT, ERROR, QUIESCENT, Done, EngineFailed, Message, Say
from .relay import ToolRelay
from .requests import TurnRequest
from .spares import SpareEngine

STOP_SECONDS = 3.0
"""How long the engine may take to stop a turn before it is ended. Less than the platform waits."""

_SOME_MODEL = "anthropic/claude-sonnet-5"
_NOT_OURS = (401, 403)
_QUEUE = 256


class ClaudeBrain:
    """Keeps one engine process, warm between requests, and replaces it when the configuration changes."""

    def __init__(self, engines: ClaudeEngines | None = None) -> None:
        self._engines = engines or ClaudeEngines()
        self._relay = ToolRelay()
        self._running: _Running | None = None
        self._spare: SpareEngine | None = None

    async def prepare(self) -> None:
        """Import the SDK, have an address for the tools, and start an engine for what may come."""
        await self._relay.open()
        try:
            await self._engines.prepare()
        except EngineEnded as error:
            raise EngineFailed(str(error)) from error
        turn = expected_turn(os.environ)
        if turn is None or _Conversation(Path(turn.state_dir)).id is not None:
            return
        try:
            self._spare = await SpareEngine.start(engine_options(turn, self._relay.url))
        except EngineEnded as error:
            print(error, file=sys.stderr, flush=True)

    async def run(self, turn: TurnRequest, say: Say) -> Done:
        """See Engine."""
        with self._relay.to(turn.mcp_endpoint):
            try:
                running = await self._fitting(turn)
                result = await self._answered(running, turn, say)
            except EngineEnded as error:
                await self._end()
                raise EngineFailed("; ".join([*error.log[-3:], str(error)])) from error
        return _done(result, asked=self._relay.asked)

    async def close(self) -> None:
        """See Engine."""
        await self._end()
        await self._let_spare_go()
        await self._relay.close()

    async def _fitting(self, turn: TurnRequest) -> _Running:
        """An engine process for this request: the one that runs, or a new one in the same conversation."""
        options = engine_options(turn, self._relay.url)
        if self._running is not None and self._running.serves(options):
            return self._running
        await self._end()
        conversation = _Conversation(Path(turn.state_dir))
        engine = await self._started(options, conversation.id)
        self._running = _Running(engine, options, conversation)
        return self._running

    async def _started(self, options: Mapping[str, Any], conversation: str | None) -> ClaudeEngine:
        spare = self._spare
        if spare is not None and conversation is None and spare.serves(options):
            try:
                self._spare = None
                return await spare.adopt(options)
            except EngineEnded as error:
                print(error, file=sys.stderr, flush=True)
                await spare.close()
        await self._let_spare_go()
        return await self._engines.launch({**options, "resume": conversation})

    async def _let_spare_go(self) -> None:
        spare, self._spare = self._spare, None
        if spare is not None:
            await spare.close()

    async def _answered(self, running: _Running, turn: TurnRequest, say: Say) -> Message:
        try:
            await running.prompt("\n\n".join(turn.input))
            while True:
                message = await running.next()
                await say(str(message.get("type", "unknown")), message)
                if message.get("type") == "result":
                    return message
                if message.get("error_status") in _NOT_OURS:
                    # The engine would try again for minutes, but a key does not become right by that.
                    await self._stop(running)
                    return {"is_error": True, "result": "The model provider rejected the key."}
        except (asyncio.CancelledError, ConnectionError):
            # Nobody listens any more: what the engine would still do, nobody asked for.
            await self._stop(running)
            raise

    async def _stop(self, running: _Running) -> None:
        if not await running.stop():
            await self._end()

    async def _end(self) -> None:
        running, self._running = self._running, None
        if running is not None:
            await running.close()


class _Running:
    """An engine process and what it says."""

    def __init__(self, engine: ClaudeEngine, options: Mapping[str, Any], conversation: _Conversation) -> None:
        self._engine = engine
        self._options = options
        self._conversation = conversation
        self._messages: asyncio.Queue[Message | EngineEnded] = asyncio.Queue(_QUEUE)
        self._listening = asyncio.ensure_future(self._listen())

    def serves(self, options: Mapping[str, Any]) -> bool:
        return self._options == options and not self._listening.done()

    async def prompt(self, text: str) -> None:
        while not self._messages.empty():
            self._messages.get_nowait()
        await self._engine.prompt(text)

    async def next(self) -> Message:
        """The next message. Raises the agent runner's EngineFailed when there will be none."""
        message = await self._messages.get()
        if isinstance(message, EngineEnded):
            raise message
        self._conversation.heard(message)
        return message

    async def stop(self) -> bool:
        """Interrupt the turn. Returns whether it has come to its end in time."""
        stopping = asyncio.ensure_future(self._stopped())
        await asyncio.wait([stopping], timeout=STOP_SECONDS)
        stopping.cancel()
        with suppress(asyncio.CancelledError):
            return await stopping
        return False

    async def close(self) -> None:
        self._listening.cancel()
        with suppress(EngineEnded):
            await self._engine.close()
        await asyncio.gather(self._listening, return_exceptions=True)

    async def _stopped(self) -> bool:
        try:
            await self._engine.interrupt()
            while (await self.next()).get("type") != "result":
                pass
        except EngineEnded:
            return False
        return True

    async def _listen(self) -> None:
        reason = EngineEnded("the engine ended")
        try:
            async for message in self._engine.messages():
                await self._messages.put(message)
        except EngineEnded as error:
            reason = error
        await self._messages.put(reason)


class _Conversation:
    """Which conversation the engine is in: kept in the state folder, beside the engine's own transcript."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "claude-session"
        try:
            working_folder_in(folder).mkdir(parents=True, exist_ok=True)
            self.id = self._noted(folder)
        except (OSError, ValueError) as error:
            raise EngineFailed(f"the state folder cannot be used: {error}") from error

    def _noted(self, folder: Path) -> str | None:
        if not self._file.exists():
            return None
        session_id = self._file.read_text("utf-8")
        # The engine refuses to resume what it has no transcript of, for want of time to write one perhaps.
        transcripts = (home_in(folder) / "projects").glob(f"*/{session_id}.jsonl")
        return session_id if any(transcripts) else None

    def heard(self, message: Message) -> None:
        """Note the conversation's id, as soon as the engine names one that has a transcript."""
        session_id = message.get("session_id")
        if message.get("type") in ("assistant", "user", "result") and isinstance(session_id, str):
            self._note(session_id)

    def _note(self, session_id: str) -> None:
        if session_id == self.id:
            return
        half = self._file.with_suffix(".half")
        half.write_text(session_id, "utf-8")
        half.replace(self._file)
        self.id = session_id


def expected_turn(environment: Mapping[str, str]) -> TurnRequest | None:
    """What the first request will be like, as far as an engine must know at its start; None: nobody knows."""
    base_url = environment.get("ANTHROPIC_BASE_URL")
    if not base_url:
        return None
    return TurnRequest(
        turn_id="",
        input=(),
        model=_SOME_MODEL,
        system_prompt="",
        mcp_endpoint="",
        state_dir=os.path.expanduser("~/.oc/runtime-state"),
        endpoint={"base_url": base_url},
    )


def _done(result: Message, *, asked: bool) -> Done:
    if result.get("is_error") is True and result.get("subtype") != "error_max_turns":
        return Done(ERROR, {"code": "model_error", "message": _reason(result)})
    return Done(AWAITING_INPUT if asked else QUIESCENT)


def _reason(result: Message) -> str:
    errors = result.get("errors")
    if isinstance(errors, list) and errors:
        return "; ".join(error if isinstance(error, str) else json.dumps(error) for error in errors)
    text = result.get("result")
    return text if isinstance(text, str) and text.strip() else str(result.get("subtype") or "the turn failed")
