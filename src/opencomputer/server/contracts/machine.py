"""A running machine as services see it: a driver's `Running` plus the link to its guest."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Literal, Protocol

from opencomputer.server.contracts.driver import (
    Capabilities,
    DriverRecord,
    Limits,
    MachineId,
    MachineSpec,
    Usage,
)


class ProcessKind(StrEnum):
    """What a guest session was started for. Listings choose by it."""

    RUN = "run"
    SESSION = "session"
    AGENT = "agent"
    PTY = "pty"


@dataclass(frozen=True)
class TerminalSize:
    columns: int
    rows: int


@dataclass(frozen=True)
class ProcessSpec:
    """One process to start in a machine.

    `id` is chosen by the host (8 lower-case hex digits), so that asking twice starts once. `argv[0]` is
    looked up on the PATH of `environment`. `environment` is what the request adds: the guest puts its base
    environment and the machine's identity environment below it. `cwd` may be relative to the user's home.
    `timeout_seconds` counts from the start; `linger_seconds` from the moment the last counted attachment
    left. `terminal` makes it a terminal session. `stdin` False gives end-of-file at once.
    `scrollback_bytes` is per output stream.
    """

    id: str
    kind: ProcessKind
    argv: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    cwd: str | None = None
    user: Literal["sandbox", "root"] = "sandbox"
    stdin: bool = False
    timeout_seconds: float | None = None
    linger_seconds: float | None = None
    terminal: TerminalSize | None = None
    scrollback_bytes: int = 1 << 20
    labels: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True)
class ExitStatus:
    """How a process ended. `code` is 128+N after signal N; None means that it is not known.

    `reason` says who ended it when it did not end by itself. `error` is set when it never started
    (code is then 126 or 127, as a shell would say).
    """

    code: int | None
    signal: int | None = None
    reason: Literal["timeout", "disconnected", "killed"] | None = None
    error: str | None = None


@dataclass(frozen=True)
class ProcessRecord:
    """One process the guest knows: running, or ended within its retention (5 minutes)."""

    id: str
    kind: ProcessKind
    argv: tuple[str, ...]
    started_at: float
    """Unix seconds."""
    attached: int
    exit: ExitStatus | None
    labels: Mapping[str, str]


@dataclass(frozen=True)
class Output:
    """A piece of output, exactly as written. `stream` is 1 or 2; a terminal has only 1.

    `offset` counts the bytes of both streams together, in the order the guest read them. A jump means
    that the reader was too slow and bytes fell out of the scrollback.
    """

    stream: Literal[1, 2]
    offset: int
    data: bytes


class Attachment(Protocol):
    """One reader (and writer) of one process. Iterating yields output in order, then its one exit.

    Iteration begins at the oldest retained byte at or after the offset asked for. `replay_end` is the
    offset at which live output begins: everything before it had been written when the attachment was
    made, and no byte is lost or repeated at the seam.
    """

    @property
    def process(self) -> ProcessRecord: ...

    @property
    def replay_end(self) -> int: ...

    def __aiter__(self) -> AsyncIterator[Output | ExitStatus]: ...

    async def write(self, data: bytes) -> None:
        """Write to the process's input, all of it, in order. Ignored when the process has ended."""
        ...

    async def close_input(self) -> None: ...


class Processes(Protocol):
    """The processes of one machine. Unknown ids raise NotFound."""

    async def spawn(self, spec: ProcessSpec) -> ProcessRecord:
        """Start a process, once per `spec.id`. A program that cannot be started is a record that ended."""
        ...

    def attach(
        self, process_id: str, *, offset: int | None = 0, counted: bool = False
    ) -> AbstractAsyncContextManager[Attachment]:
        """Read from `offset`. None means: from the first byte that no attachment has read (terminals).

        `counted` attachments appear in `ProcessRecord.attached` and hold `linger_seconds` back.
        """
        ...

    async def get(self, process_id: str) -> ProcessRecord: ...

    async def list(self) -> Sequence[ProcessRecord]: ...

    async def signal(self, process_id: str, signal: int) -> None:
        """Send a signal to the process's group; SIGKILL goes to the whole tree, setsid children included."""
        ...

    async def resize(self, process_id: str, size: TerminalSize) -> None: ...

    async def label(self, process_id: str, labels: Mapping[str, str]) -> None:
        """Merge labels into the record. They live exactly as long as the process's record."""
        ...


@dataclass(frozen=True)
class FileEntry:
    name: str
    path: str
    is_directory: bool
    size_bytes: int


@dataclass(frozen=True)
class FileContent:
    """An open file in the machine. `size_bytes` is None where the size cannot be known (/proc)."""

    size_bytes: int | None
    chunks: AsyncIterator[bytes]


class Files(Protocol):
    """Files of one machine, resolved inside it. Relative paths are under the sandbox user's home.

    Raises FileMissing, NotAFile, NotADirectory, FileConflict, FileForbidden, DiskFull, InvalidInput.
    """

    def read(self, path: str) -> AbstractAsyncContextManager[FileContent]: ...

    async def write(self, path: str, chunks: AsyncIterator[bytes], *, size_hint: int | None = None) -> None:
        """Replace or create a file atomically. If `chunks` raises, the old file stays."""
        ...

    async def list(self, path: str) -> Sequence[FileEntry]: ...

    async def make_directory(self, path: str) -> None: ...

    async def remove(self, path: str) -> None: ...


@dataclass(frozen=True)
class Identity:
    """Who a machine is from now on. Everything that must differ between two machines of one image.

    `token` replaces the secret with which the host introduces itself. `environment` is visible to every
    later process. `entropy` is mixed into the guest's random state.
    """

    sandbox_id: str
    hostname: str
    machine_id: str
    token: str
    entropy: bytes
    environment: Mapping[str, str]


class Machine(Protocol):
    """One running machine. Calls thaw it when it is frozen, and it freezes itself when nothing runs in it.

    Raises MachineLost when the machine has ended.
    """

    @property
    def id(self) -> MachineId: ...

    @property
    def record(self) -> DriverRecord: ...

    @property
    def processes(self) -> Processes: ...

    @property
    def files(self) -> Files: ...

    async def identify(self, identity: Identity) -> None:
        """Give the machine a new identity; also synchronises its clock and restarts nothing."""
        ...

    async def rest(self) -> None:
        """Freeze now if no user process runs."""
        ...

    async def save_memory(self, folder: Path) -> None: ...

    async def set_limits(self, limits: Limits) -> None: ...

    async def usage(self) -> Usage: ...

    async def wait(self) -> str:
        """Return why the machine ended, once it has."""
        ...

    async def detach(self) -> None:
        """Let go without ending the machine: the server stops, another will adopt it."""
        ...

    async def stop(self) -> None: ...


class Machines(Protocol):
    """Starts machines and takes them over. What services use instead of a driver."""

    @property
    def image_version(self) -> str:
        """Memory images made under another value must not be started from."""
        ...

    @property
    def capabilities(self) -> Capabilities: ...

    async def start(self, spec: MachineSpec, *, guest_token: str) -> Machine:
        """Start and wait until the guest answers. `guest_token` is what its guest accepts at first."""
        ...

    async def adopt(self, record: DriverRecord, *, guest_token: str) -> Machine | None: ...

    async def survey(self) -> Sequence[MachineId]: ...

    async def discard(self, machine_id: MachineId) -> None: ...
