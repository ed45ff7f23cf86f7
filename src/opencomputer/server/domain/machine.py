"""Values that travel between services and a machine: processes, output, files, identity."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

from opencomputer.server.domain.byte_ranges import Span


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


@dataclass(frozen=True)
class FileEntry:
    name: str
    path: str
    is_directory: bool
    size_bytes: int


@dataclass(frozen=True)
class FileContent:
    """An open file in the machine. `size_bytes` is None where the size cannot be known (/proc).

    `chunks` are all of it, or only its `span`.
    """

    size_bytes: int | None
    chunks: AsyncIterator[bytes]
    span: Span | None = None


@dataclass(frozen=True)
class Identity:
    """Who a machine is from now on. Everything that must differ between two machines of one image.

    `token` replaces the secret with which the host introduces itself. `environment` is visible to every
    later process, and `workdir` is where they start unless they are told otherwise (None: the user's home).
    `entropy` is mixed into the guest's random state. `boot_id` None keeps the present one. `generation`
    tells programs that their memory was copied: it is another number than before whenever it was. `copied`:
    the machine goes on as another sandbox than the one that was saved, so what identifies it to others, as
    its SSH host keys, is made anew. `trust` is a certificate (PEM) that programs inside trust from now on as
    an authority, instead of an earlier one; empty changes nothing.
    `memory_bytes` and `processors` are the size that programs in it see; None: what its kernel says.
    """

    sandbox_id: str
    hostname: str
    machine_id: str
    token: str
    entropy: bytes
    environment: Mapping[str, str]
    workdir: str | None = None
    boot_id: str | None = None
    generation: int = 0
    copied: bool = False
    trust: str = ""
    memory_bytes: int | None = None
    processors: int | None = None
