"""The Codex engine: one `codex exec` for each request, in the conversation kept in the state folder."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections import deque
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import cast

from .engine import AWAITING_INPUT, ERROR, QUIESCENT, Done, EngineFailed, Message, Say
from .relay import ToolRelay
from .requests import Json, TurnRequest

PROGRAM = "/opt/opencomputer/codex/bin/codex"
SERVER = "oc"
PLACEHOLDER_KEY = "provided-by-the-node"
DEFAULT_KEY_VARIABLE = "OPENAI_API_KEY"
MAX_LINE_BYTES = 64 << 20
STOP_SECONDS = 3.0
"""How long the engine may take to end when it is interrupted. Less than the platform waits."""

USAGE_BEFORE = "oc.usage_before"
"""What the conversation had used before: the engine only tells totals. Comes before the engine's lines."""

STEP_CAP = "oc.step_cap"
"""The engine was stopped after as many tool calls as it may make: it knows no such limit itself."""

_LOG_LINES = 20

# Everything the engine could do by itself, and whatever would have it call anybody but its model.
_OFF = (
    "apps",
    "enable_request_compression",
    "goals",
    "hooks",
    "plugins",
    "shell_snapshot",
    "shell_tool",
    "skill_search",
    "sleep_tool",
    "tool_suggest",
    "unbounded_connection_retries",
    "unified_exec",
    "view_image",
)


class CodexBrain:
    """Starts the engine's own command line program for each request. See Engine."""

    def __init__(self, program: str = PROGRAM) -> None:
        self._program = program
        self._relay = ToolRelay()

    async def prepare(self) -> None:
        """Have an address for the tools. Raises EngineFailed when the template has no such engine."""
        await self._relay.open()
        if not os.access(self._program, os.X_OK):
            raise EngineFailed(f"{self._program} is not there: the template does not have Codex")

    async def run(self, turn: TurnRequest, say: Say) -> Done:
        """See Engine."""
        state = _State(Path(turn.state_dir))
        state.configure(turn, self._relay.url)
        with self._relay.to(turn.mcp_endpoint):
            process = await _Process.start(self._program, state, turn)
            try:
                failure = await _Listening(state, turn.max_turns, say).to(process)
            finally:
                await process.stop()
        if failure is not None:
            return Done(ERROR, {"code": "model_error", "message": failure})
        return Done(AWAITING_INPUT if self._relay.asked else QUIESCENT)

    async def close(self) -> None:
        """See Engine."""
        await self._relay.close()


class _Listening:
    """Passes on what the engine says, and notices how it ends."""

    def __init__(self, state: _State, max_calls: int, say: Say) -> None:
        self._state = state
        self._max_calls = max_calls
        self._say = say
        self._calls = 0

    async def to(self, process: _Process) -> str | None:
        """Until the turn is over. Returns why it failed, if it did. Raises EngineFailed."""
        await self._say(USAGE_BEFORE, self._state.usage)
        async for message in process.messages():
            kind = str(message.get("type", "unknown"))
            await self._say(kind, message)
            if kind == "thread.started":
                self._state.note_thread(message)
            elif kind == "turn.completed":
                self._state.note_usage(message)
                return None
            elif kind == "turn.failed":
                return _reason(message)
            elif kind == "item.completed" and self._is_last_call(message):
                await self._say(STEP_CAP, {"calls": self._calls})
                return None
        raise EngineFailed(await process.last_words())

    def _is_last_call(self, message: Message) -> bool:
        item = message.get("item")
        if isinstance(item, dict) and item.get("type") == "mcp_tool_call":
            self._calls += 1
        return self._calls >= self._max_calls


class _Process:
    """One run of the engine's program."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._log: deque[str] = deque(maxlen=_LOG_LINES)
        self._logging = asyncio.ensure_future(self._read_log())

    @classmethod
    async def start(cls, program: str, state: _State, turn: TurnRequest) -> _Process:
        """Start it with the input of this request. Raises EngineFailed."""
        thread = state.thread
        resume = ["resume", thread] if thread is not None else []
        # The input comes on standard input: arguments of programs are short.
        arguments = ["exec", *resume, "--json", "--skip-git-repo-check", "-"]
        try:
            process = await asyncio.create_subprocess_exec(
                program,
                *arguments,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                cwd=state.work,
                env=_environment(state, turn),
                limit=MAX_LINE_BYTES,
                start_new_session=True,
            )
        except OSError as error:
            raise EngineFailed(f"the engine cannot be started: {error}") from error
        assert process.stdin is not None
        with suppress(ConnectionError):
            process.stdin.write("\n\n".join(turn.input).encode("utf-8", "replace"))
            await process.stdin.drain()
        process.stdin.close()
        return cls(process)

    async def messages(self) -> AsyncIterator[Message]:
        """What it says, until it ends. Raises EngineFailed."""
        assert self._process.stdout is not None
        while True:
            try:
                line = await self._process.stdout.readline()
            except ValueError as error:
                raise EngineFailed("the engine said too much at once") from error
            if not line:
                return
            if line.startswith(b"{"):
                yield _parsed(line)

    async def last_words(self) -> str:
        """Why it ended, as far as it says."""
        await asyncio.wait([self._logging], timeout=STOP_SECONDS)
        return "; ".join(["the engine ended before it was done", *list(self._log)[-3:]])

    async def stop(self) -> None:
        """End it, with everything it has started: gently, so that its conversation is whole."""
        ending = asyncio.ensure_future(self._process.wait())
        for number in (signal.SIGINT, signal.SIGKILL):
            if not ending.done():
                self._signal(number)
                await asyncio.wait([ending], timeout=STOP_SECONDS)
        self._signal(signal.SIGKILL)
        self._logging.cancel()
        await asyncio.gather(self._logging, return_exceptions=True)

    def _signal(self, number: int) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)

    async def _read_log(self) -> None:
        assert self._process.stderr is not None
        while line := await self._process.stderr.readline():
            if text := line.decode("utf-8", "replace").strip():
                self._log.append(text[:1000])


class _State:
    """What the engine keeps in the state folder: its configuration, its conversations, and ours of them."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "codex"
        self.work = folder / "work"
        self._file = folder / "codex-thread.json"
        try:
            self.home.mkdir(parents=True, exist_ok=True)
            self.work.mkdir(parents=True, exist_ok=True)
            self._kept = cast("dict[str, Json]", json.loads(self._file.read_text("utf-8")))
        except FileNotFoundError:
            self._kept = {}
        except (OSError, ValueError) as error:
            raise EngineFailed(f"the state folder cannot be used: {error}") from error

    @property
    def thread(self) -> str | None:
        """The conversation, if the engine has a record of it."""
        thread = self._kept.get("thread")
        if not isinstance(thread, str):
            return None
        return thread if any((self.home / "sessions").rglob(f"*{thread}.jsonl*")) else None

    @property
    def usage(self) -> Message:
        usage = self._kept.get("usage")
        return usage if isinstance(usage, dict) and self.thread is not None else {}

    def note_thread(self, message: Message) -> None:
        if message.get("thread_id") != self._kept.get("thread"):
            self._keep({"thread": message.get("thread_id")})

    def note_usage(self, message: Message) -> None:
        self._keep({**self._kept, "usage": message.get("usage")})

    def configure(self, turn: TurnRequest, tools_url: str) -> None:
        """Write what the engine reads when it starts."""
        prompt = self.home / "instructions.md"
        try:
            prompt.write_text(turn.system_prompt, "utf-8")
            text = configuration(turn, tools_url, str(prompt))
            (self.home / "config.toml").write_text(text, "utf-8")
        except (OSError, ValueError) as error:
            raise EngineFailed(f"the state folder cannot be used: {error}") from error

    def _keep(self, kept: dict[str, Json]) -> None:
        half = self._file.with_suffix(".half")
        half.write_text(json.dumps(kept), "utf-8")
        half.replace(self._file)
        self._kept = kept


def configuration(turn: TurnRequest, tools_url: str, instructions: str) -> str:
    """A request's configuration in the engine's words: our tools, our gateway, and nothing else."""
    provider = {
        "name": "OpenComputer",
        "base_url": str(turn.endpoint.get("base_url", "")),
        "wire_api": "responses",
        "env_key": key_variable(turn),
    }
    tools: Mapping[str, Json] = {
        "url": tools_url,
        "required": True,
        "startup_timeout_sec": 20,
        "tool_timeout_sec": 3600,
        "default_tools_approval_mode": "approve",
    }
    top: Mapping[str, Json] = {
        "model": turn.model_name,
        "model_provider": SERVER,
        "model_instructions_file": instructions,
        "approval_policy": "never",
        "sandbox_mode": "read-only",
        "web_search": "disabled",
        "check_for_update_on_startup": False,
        "project_doc_max_bytes": 0,
        "include_environment_context": False,
        "include_permissions_instructions": False,
        "include_apps_instructions": False,
    }
    tables: Mapping[str, Mapping[str, Json]] = {
        f"model_providers.{SERVER}": provider,
        f"mcp_servers.{SERVER}": tools,
        "agents": {"enabled": False},
        "analytics": {"enabled": False},
        "skills.bundled": {"enabled": False},
        "features": dict.fromkeys(_OFF, False),
    }
    lines = _assignments(top)
    for name, members in tables.items():
        lines += ["", f"[{name}]", *_assignments(members)]
    return "\n".join(lines) + "\n"


def key_variable(turn: TurnRequest) -> str:
    """The variable in which the engine looks for its key."""
    return str(turn.endpoint.get("auth_env") or DEFAULT_KEY_VARIABLE)


def _assignments(members: Mapping[str, Json]) -> list[str]:
    # JSON's strings, numbers and booleans are TOML's too, but for characters that JSON escapes in two halves.
    return [f"{name} = {json.dumps(value, ensure_ascii=False)}" for name, value in members.items()]


def _environment(state: _State, turn: TurnRequest) -> dict[str, str]:
    key = key_variable(turn)
    placeholder = os.environ.get(key) or PLACEHOLDER_KEY
    return {**os.environ, "CODEX_HOME": str(state.home), key: placeholder}


def _parsed(line: bytes) -> Message:
    try:
        value = cast("Json", json.loads(line))
    except (ValueError, RecursionError) as error:
        raise EngineFailed("the engine said something that is no JSON") from error
    return value if isinstance(value, dict) else {}


def _reason(message: Message) -> str:
    error = message.get("error")
    text = error.get("message") if isinstance(error, dict) else None
    return text if isinstance(text, str) and text else "the turn failed"
