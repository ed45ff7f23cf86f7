"""The Claude engine: the Claude Agent SDK with no tools but the session's own."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from ..agent_runner.claude import ClaudeEngine, ClaudeEngines
from ..agent_runner.engine import EngineFailed as EngineEnded
from ..agent_runner.environment import engine_environment
from .engine import AWAITING_INPUT, ERROR, QUIESCENT, Done, EngineFailed, Message, Say
from .relay import ToolRelay
from .requests import TurnRequest

SERVER = "oc"
"""What the engine calls the session's tools: `mcp__oc__bash`."""

PLACEHOLDER_KEY = "provided-by-the-node"
STOP_SECONDS = 3.0
"""How long the engine may take to stop a turn before it is ended. Less than the platform waits."""

_NOT_OURS = (401, 403)
_QUEUE = 256
_TOOL_MILLISECONDS = 3600 * 1000
_MAX_RESULT_TOKENS = 100_000


class ClaudeBrain:
    """Keeps one engine process, warm between requests, and replaces it when the configuration changes."""

    def __init__(self, engines: ClaudeEngines | None = None) -> None:
        self._engines = engines or ClaudeEngines()
        self._relay = ToolRelay()
        self._running: _Running | None = None

    async def prepare(self) -> None:
        """Import the SDK, and have an address for the tools."""
        await self._relay.open()
        try:
            await self._engines.prepare()
        except EngineEnded as error:
            raise EngineFailed(str(error)) from error

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
        await self._relay.close()

    async def _fitting(self, turn: TurnRequest) -> _Running:
        """An engine process for this request: the one that runs, or a new one in the same conversation."""
        options = engine_options(turn, self._relay.url)
        if self._running is not None and self._running.serves(options):
            return self._running
        await self._end()
        conversation = _Conversation(Path(turn.state_dir))
        engine = await self._engines.launch({**options, "resume": conversation.id})
        self._running = _Running(engine, options, conversation)
        return self._running

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
            _working_folder(folder).mkdir(parents=True, exist_ok=True)
            self.id = self._noted(folder)
        except (OSError, ValueError) as error:
            raise EngineFailed(f"the state folder cannot be used: {error}") from error

    def _noted(self, folder: Path) -> str | None:
        if not self._file.exists():
            return None
        session_id = self._file.read_text("utf-8")
        # The engine refuses to resume what it has no transcript of, for want of time to write one perhaps.
        transcripts = (_home(folder) / "projects").glob(f"*/{session_id}.jsonl")
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


def engine_options(turn: TurnRequest, tools_url: str) -> dict[str, Any]:
    """A request's configuration in the SDK's words. What is the same needs no other process."""
    home = _home(Path(turn.state_dir))
    skilled = any((home / "skills").glob("*/SKILL.md"))
    return {
        "model": turn.model_name,
        "system_prompt": turn.system_prompt,
        "tools": ["Skill"] if skilled else [],
        "allowed_tools": [f"mcp__{SERVER}"],
        "skills": "all" if skilled else [],
        "mcp_servers": {SERVER: {"type": "http", "url": tools_url}},
        "strict_mcp_config": True,
        "permission_mode": "dontAsk",
        "max_turns": turn.max_turns,
        "setting_sources": ["user"],
        "cwd": str(_working_folder(Path(turn.state_dir))),
        "env": _environment(turn, home),
    }


def _home(folder: Path) -> Path:
    """Where the engine keeps its own things, skills and transcripts among them."""
    return folder / "claude"


def _working_folder(folder: Path) -> Path:
    """The engine works nowhere; but its transcripts belong to a place, which must stay the same."""
    return folder / "work"


def _environment(turn: TurnRequest, home: Path) -> dict[str, str]:
    key = str(turn.endpoint.get("auth_env") or "ANTHROPIC_API_KEY")
    variables = {
        **engine_environment(os.environ, os.getuid()),
        "CLAUDE_CONFIG_DIR": str(home),
        "CLAUDE_CODE_DISABLE_AUTO_MEMORY": "1",
        "ENABLE_TOOL_SEARCH": "false",
        "MAX_MCP_OUTPUT_TOKENS": str(_MAX_RESULT_TOKENS),
        "MCP_TOOL_TIMEOUT": str(_TOOL_MILLISECONDS),
        key: os.environ.get(key) or PLACEHOLDER_KEY,
    }
    if base_url := turn.endpoint.get("base_url"):
        variables["ANTHROPIC_BASE_URL"] = str(base_url)
    return variables


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
