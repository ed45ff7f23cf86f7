"""Following an agent live."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import dataclass

from opencomputer.cli.agent_view import lines_of
from opencomputer.cli.failures import exit_code_of_process
from opencomputer.cli.following import forward_input, interrupts
from opencomputer.cli.output import Output, json_text
from opencomputer.sdk.agent import Agent
from opencomputer.sdk.agent_events import AgentEvent, LineSplitter
from opencomputer.sdk.agent_session import AgentSession, AgentSettings
from opencomputer.sdk.http import httpx
from opencomputer.sdk.sandbox_link import SandboxLink

_TERMINATE = 15


@dataclass(frozen=True)
class AgentTask:
    """What an agent is given to do. `keep` leaves its process running when it is done."""

    prompt: str
    settings: AgentSettings
    keep: bool = False


async def run_agent(link: SandboxLink, task: AgentTask, output: Output) -> int:
    """Start an agent and show what it does until it is done.

    Returns how its turn ended: 0 also when the person leaves it working, 255 when the link was lost.
    """
    view = _View(output)
    settings = task.settings
    session = await Agent(link).start(
        prompt=task.prompt,
        model=settings.model,
        system_prompt=settings.system_prompt,
        allowed_tools=settings.allowed_tools,
        permission_mode=settings.permission_mode,
        max_turns=settings.max_turns,
        cwd=settings.cwd,
        resume=settings.resume,
        on_event=view.show,
        on_error=view.report,
        reconnect=True,
    )
    person = _Person(session, output)
    with interrupts(person.pressed):
        code = await person.unless_leaving(session.wait())
    if code is None:
        _tell_how_to_return(link, session, output)
    elif not task.keep:
        with suppress(httpx.HTTPError):
            await session.kill(_TERMINATE)
    if view.conversation and code is not None:
        output.note(f"Go on with --resume {view.conversation}.")
    await session.close()
    return exit_code_of_process(code or 0)


async def attach_agent(link: SandboxLink, session_id: str, output: Output) -> int:
    """Show an agent's events, old and new, until it ends or the person leaves it."""
    view = _View(output)
    session = await Agent(link).attach(session_id, view.show, view.report, reconnect=True)
    person = _Person(session, output)
    with interrupts(person.pressed):
        if sys.stdin.isatty():
            forward_input(_Prompts(session).typed)
        code = await person.unless_leaving(session.wait(until="exit"))
    if code is None:
        _tell_how_to_return(link, session, output)
    await session.close()
    return exit_code_of_process(code or 0)


class _View:
    """Prints events as they come: readable lines, or one JSON object per line."""

    def __init__(self, output: Output) -> None:
        self.conversation: str | None = None
        self._output = output

    def show(self, event: AgentEvent) -> None:
        """Print one event."""
        if event.type == "turn_complete":
            conversation = event.get("claude_session_id")
            self.conversation = conversation if isinstance(conversation, str) else None
        if self._output.json:
            self._output.line(json_text({"type": event.type, **event.data}), flush=True)
            return
        for line in lines_of(event):
            self._output.line(self._output.styled(line.content, *line.styles), flush=True)

    def report(self, words: str) -> None:
        """Print what the agent's process writes to its log."""
        for line in words.splitlines():
            self._output.note(line)


class _Person:
    """Ctrl-C: the first interrupts what the agent does, the next leaves it."""

    def __init__(self, session: AgentSession, output: Output) -> None:
        self._session = session
        self._output = output
        self._presses = 0
        self._leaving = asyncio.Event()

    async def pressed(self) -> None:
        """Take one press."""
        self._presses += 1
        if self._presses > 1 or self._session.idle:
            self._leaving.set()
            return
        self._output.note("Interrupting; Ctrl-C once more leaves it working.")
        self._session.interrupt()

    async def unless_leaving(self, wait: Coroutine[object, object, int]) -> int | None:
        """What the wait comes to, or None when the person leaves first."""
        waiting = asyncio.ensure_future(wait)
        leaving = asyncio.ensure_future(self._leaving.wait())
        await asyncio.wait([waiting, leaving], return_when=asyncio.FIRST_COMPLETED)
        leaving.cancel()
        if waiting.done():
            return waiting.result()
        waiting.cancel()
        return None


class _Prompts:
    """Turns lines that are typed into prompts."""

    def __init__(self, session: AgentSession) -> None:
        self._session = session
        self._lines = LineSplitter()

    async def typed(self, data: bytes) -> None:
        """Take what was typed."""
        for line in self._lines.feed(data):
            self._session.send_prompt(line.decode("utf-8", errors="replace"))


def _tell_how_to_return(link: SandboxLink, session: AgentSession, output: Output) -> None:
    output.note(f"It goes on. `oc agent attach {link.sandbox_id} {session.session_id}` follows it again.")
