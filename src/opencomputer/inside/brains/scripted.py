"""An engine without a model: it does what a program says, and uses the real tools for it."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

from .behaviours import BadProgram, Step, filled, program_for
from .engine import AWAITING_INPUT, ERROR, QUIESCENT, Done, EngineFailed, Say
from .requests import Json, TurnRequest
from .tools import Tools, ToolsFailed

CRASH_EXIT_CODE = 70
_NOTICE = "[OpenComputer]"
_LONG_SECONDS = 24 * 3600.0


class ScriptedEngine:
    """Each step counts as one answer of a model. See Engine; `crash` ends the process."""

    def __init__(self, crash: Callable[[], None] = lambda: os._exit(CRASH_EXIT_CODE)) -> None:
        self._crash = crash

    async def prepare(self) -> None:
        """There is nothing to load."""

    async def close(self) -> None:
        """There is nothing to end."""

    async def run(self, turn: TurnRequest, say: Say) -> Done:
        memory = _Memory(Path(turn.state_dir))
        asked = memory.last_asked(turn.turn_id)
        memory.remember(turn.turn_id, turn.input)
        try:
            steps = program_for(turn.model_name, _said(turn), asked=asked, max_steps=turn.max_turns)
        except BadProgram as error:
            return await _failed(say, "invalid_program", str(error))
        return await _Run(turn, say, memory, self._crash).all(steps)


def _said(turn: TurnRequest) -> str:
    """What was said to the agent now, without what the server itself adds when a turn is begun again."""
    return "\n".join(text for text in turn.input if not text.startswith(_NOTICE))


class _Run:
    def __init__(self, turn: TurnRequest, say: Say, memory: _Memory, crash: Callable[[], None]) -> None:
        self._turn = turn
        self._say = say
        self._memory = memory
        self._crash = crash
        self._tools = Tools(turn.mcp_endpoint)
        self._calls = 0
        self._output_characters = 0
        self._values = {
            "input": _said(turn),
            "memory": "\n".join(memory.said()),
            "result": "",
            "turn": turn.turn_id,
        }

    async def all(self, steps: Any) -> Done:
        stopped = "max_steps" if len(steps) > self._turn.max_turns else "end"
        for step in steps[: self._turn.max_turns]:
            if "fail" in step:
                return await _failed(self._say, str(step.get("code", "model_error")), step["fail"])
            try:
                await self._step(step)
            except ToolsFailed as error:
                raise EngineFailed(str(error)) from error
            if "ask" in step:
                self._memory.asked(self._turn.turn_id)
                await self._result("end")
                return Done(AWAITING_INPUT)
        await self._result(stopped)
        return Done(QUIESCENT)

    async def _step(self, step: Step) -> None:
        if "narrate" in step:
            await self._speak("text", self._filled(step["narrate"]))
        elif "think" in step:
            await self._speak("thinking", self._filled(step["think"]))
        elif "say" in step or "ask" in step:
            name = "say" if "say" in step else "ask"
            await self._call(name, {"text": self._filled(step[name])})
        elif "bash" in step:
            await self._call("bash", {"command": self._filled(step["bash"])})
        elif "tool" in step:
            await self._call(step["tool"], self._filled_arguments(step.get("arguments")))
        elif "sleep" in step:
            await asyncio.sleep(step["sleep"])
        elif "hang" in step:
            await asyncio.sleep(_LONG_SECONDS)
        elif step["crash"] != "once" or self._memory.first_crash(self._turn.turn_id):
            self._crash()

    async def _speak(self, kind: str, text: str) -> None:
        self._output_characters += len(text)
        await self._say(kind, {"text": text})

    async def _call(self, name: str, arguments: Mapping[str, Json]) -> None:
        self._calls += 1
        self._output_characters += len(json.dumps(arguments))
        call = f"{self._turn.turn_id}-{self._calls}"
        await self._say("tool_use", {"id": call, "name": name, "input": arguments})
        result = await self._tools.call(name, arguments)
        self._values["result"] = result.text
        await self._say("tool_result", {"id": call, "text": result.text, "is_error": result.is_error})

    async def _result(self, stopped: str) -> None:
        usage = {
            "input_tokens": max(1, sum(map(len, self._turn.input)) // 4),
            "output_tokens": max(1, self._output_characters // 4),
        }
        await self._say("result", {"stopped": stopped, "usage": usage})

    def _filled(self, text: str) -> str:
        return filled(text, self._values)

    def _filled_arguments(self, arguments: object) -> Mapping[str, Json]:
        pairs = cast("Mapping[str, Any]", arguments) if isinstance(arguments, dict) else dict[str, Any]()
        return {
            name: self._filled(value) if isinstance(value, str) else value for name, value in pairs.items()
        }


class _Memory:
    """What the engine keeps in its state folder: a journal of the turns, and which of them crashed."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "journal.json"
        self._turns: dict[str, dict[str, Any]] = {}
        try:
            self._turns = json.loads(self._file.read_text("utf-8"))
        except FileNotFoundError:
            folder.mkdir(parents=True, exist_ok=True)
        except (OSError, ValueError) as error:
            raise EngineFailed(f"the journal cannot be read: {error}") from error

    def remember(self, turn_id: str, said: tuple[str, ...]) -> None:
        """Note what a turn was told. A turn that is run again is the same turn; more input comes on top."""
        turn = self._turns.setdefault(turn_id, {"said": []})
        turn["said"] = [*dict.fromkeys([*turn["said"], *said])]
        self._write()

    def said(self) -> list[str]:
        return [text for turn in self._turns.values() for text in turn["said"]]

    def asked(self, turn_id: str) -> None:
        self._turns[turn_id]["asked"] = True
        self._write()

    def last_asked(self, turn_id: str) -> bool:
        """Whether the turn before this one ended with a question."""
        earlier = [turn for each, turn in self._turns.items() if each != turn_id]
        return bool(earlier) and earlier[-1].get("asked") is True

    def first_crash(self, turn_id: str) -> bool:
        """True once for each turn."""
        first = not self._turns[turn_id].get("crashed")
        self._turns[turn_id]["crashed"] = True
        self._write()
        return first

    def _write(self) -> None:
        half = self._file.with_suffix(".half")
        half.write_text(json.dumps(self._turns), "utf-8")
        half.replace(self._file)


async def _failed(say: Say, code: str, message: str) -> Done:
    error: dict[str, Json] = {"code": code, "message": message}
    await say("error", error)
    return Done(ERROR, error)
