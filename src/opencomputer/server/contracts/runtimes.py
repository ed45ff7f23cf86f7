"""Agent engines as plug-ins: each drives one kind of brain (agent-sessions.md section 5).

A brain is a server inside the session's brain machine that holds the model loop. It speaks one contract
whatever the engine; what differs is how it is started, where its model comes from, and what its own messages
mean.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol

from opencomputer.server.domain.errors import OpenComputerError
from opencomputer.server.domain.sessions.events import Json, NewEvent
from opencomputer.server.domain.sessions.session import PinnedAgent, Session, TurnError, Usage

CONTRACT_VERSION = "1"
BRAIN_PORT = 8080
STATE_FOLDER = "/home/sandbox/.oc/runtime-state"
MAX_STEPS = 24
"""How many steps a brain takes for one request."""


class BrainFault(OpenComputerError):
    """The agent's engine ended, or what it said cannot be read."""

    code = "brain_crashed"


class BrainBusy(OpenComputerError):
    """The agent's engine still works on an earlier request."""

    code = "brain_busy"


class BrainNotReady(OpenComputerError):
    """The agent's engine did not start."""

    code = "brain_not_ready"


@dataclass(frozen=True)
class BrainHealth:
    ready: bool
    busy: bool


@dataclass(frozen=True)
class BrainRequest:
    """The body of `POST /turn`: `input` is only what is new, one message per input event."""

    turn_id: str
    input: Sequence[str]
    model: str
    system_prompt: str
    mcp_endpoint: str
    resume: bool
    max_turns: int = MAX_STEPS
    state_dir: str = STATE_FOLDER
    endpoint_profile: Json | None = None
    """How the brain reaches its model, without any secret: `mode`, `base_url`, `auth_env`."""


@dataclass(frozen=True)
class BrainLine:
    """One line of a brain's answer. `message` is the engine's own; the last line has kind `done`."""

    kind: str
    message: Json


DONE = "done"


class Brain(Protocol):
    """A brain that can be reached."""

    async def health(self) -> BrainHealth:
        """Raises BrainFault when it cannot be reached or does not answer in time."""
        ...

    def turn(self, request: BrainRequest) -> AbstractAsyncContextManager[AsyncIterator[BrainLine]]:
        """Run one request. Its lines end with one of kind `done`; raises BrainFault when they end without.

        Entering raises BrainBusy. Leaving early gives the request up, and the brain stops working on it."""
        ...


class BrainDoneReason:
    QUIESCENT = "quiescent"
    AWAITING_INPUT = "awaiting_input"
    ERROR = "error"


@dataclass(frozen=True)
class Translated:
    """What one line of a brain means.

    `events` have no keys yet. `text` is assistant text that was narrated by it. `usage` counts on top of what
    was reported before; `step_cap`: the engine stopped with work left; `error`: the model failed.
    """

    events: Sequence[NewEvent] = ()
    text: str | None = None
    usage: Usage | None = None
    step_cap: bool = False
    error: TurnError | None = None


class Translator(Protocol):
    """Turns one request's lines into events; it may remember what it has seen."""

    def translate(self, line: BrainLine) -> Translated: ...


@dataclass(frozen=True)
class BrainProgram:
    """How a brain is started in its machine. `files` are written before: path to content."""

    argv: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    files: Mapping[str, bytes] = field(default_factory=dict[str, bytes])


@dataclass(frozen=True)
class SkillFile:
    """One file of the pinned revision's skills: `path` starts with the skill's folder."""

    path: str
    content: bytes
    executable: bool


class Runtime(Protocol):
    """One kind of engine."""

    @property
    def name(self) -> str: ...

    @property
    def providers(self) -> frozenset[str]:
        """Whose models it can use: what stands before the slash."""
        ...

    @property
    def takes_skills(self) -> bool: ...

    def program(self, agent: PinnedAgent, skills: Sequence[SkillFile]) -> BrainProgram:
        """The brain of a session of this agent. The same for every session without skills."""
        ...

    def endpoint(self, gateway_url: str) -> Json:
        """`endpoint_profile` for a brain whose model is behind the node's gateway."""
        ...

    def system_prompt(self, agent: PinnedAgent) -> str:
        """The agent's prompt with what has to be said about the tools."""
        ...

    def translator(self) -> Translator: ...


class BrainBoxes(Protocol):
    """The two sandboxes of a session, whatever state they are in (agent-sessions.md section 5.2)."""

    async def brain(self, session: Session, runtime: Runtime) -> Brain:
        """A brain that is ready: made, woken, restarted or restored as needed.

        Raises BrainNotReady, and what making a sandbox raises.
        """
        ...

    async def kill_brain(self, session: Session) -> None:
        """End the brain's processes at once; the next `brain` starts them anew. Never raises."""
        ...

    async def hands(self, session: Session) -> Hands:
        """The hands, made or woken as needed."""
        ...

    async def keep_state(self, session: Session, turn_id: str) -> bool:
        """Save the brain's state at the end of a turn. False: there is nothing to save."""
        ...

    async def checkpoint(self, session: Session, turn_id: str) -> str | None:
        """Checkpoint the hands at the end of a turn, where the agent wants that."""
        ...

    async def rest(self, session: Session) -> None:
        """Hibernate both."""
        ...

    async def destroy(self, session: Session) -> None: ...


@dataclass(frozen=True)
class CommandResult:
    """`output` is both streams as they came, whole; the other two are what the model gets, cut."""

    exit_code: int
    stdout: str
    stderr: str
    output: bytes
    timed_out: bool
    duration_ms: int


class Hands(Protocol):
    """Where the tools of a turn do their work. Raises MachineLost when the machine has gone meanwhile."""

    async def run(self, command: str, *, timeout_seconds: float) -> CommandResult: ...

    async def read(self, path: str, *, limit: int) -> bytes: ...

    async def write(self, path: str, content: bytes) -> None: ...

    async def list(self, path: str) -> Sequence[Mapping[str, Any]]: ...

    @property
    def lost_before(self) -> bool:
        """These hands are new because the earlier ones were lost: to be told to the model once."""
        ...


class TurnWriter(Protocol):
    """Appends events of the turn that runs, in order, each with a key of its own. Raises Fenced."""

    async def write(self, *events: NewEvent) -> Sequence[str]:
        """Append; the events' ids. An event that has a key keeps it."""
        ...

    async def known(self, prefix: str) -> frozenset[str]:
        """Keys in the session's log that begin like this."""
        ...
