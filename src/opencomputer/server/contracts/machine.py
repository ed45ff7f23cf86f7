"""A running machine as services see it: a driver's `Running` plus the link to its guest."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Protocol

from opencomputer.server.contracts.driver import (
    Capabilities,
    DriverRecord,
    Limits,
    MachineId,
    MachineSpec,
    Usage,
)
from opencomputer.server.domain.byte_ranges import ByteRange
from opencomputer.server.domain.egress import EgressMode
from opencomputer.server.domain.machine import (
    ExitStatus,
    FileContent,
    FileEntry,
    Identity,
    Output,
    ProcessKind,
    ProcessRecord,
    ProcessSpec,
    TerminalSize,
)

__all__ = [
    "Attachment",
    "Connection",
    "ExitStatus",
    "FileContent",
    "FileEntry",
    "Files",
    "Identity",
    "Machine",
    "Machines",
    "Output",
    "ProcessKind",
    "ProcessRecord",
    "ProcessSpec",
    "Processes",
    "TerminalSize",
]


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


class Files(Protocol):
    """Files of one machine, resolved inside it. Relative paths are under the sandbox user's home.

    Raises FileMissing, NotAFile, NotADirectory, FileConflict, FileForbidden, DiskFull, InvalidInput.
    """

    def read(self, path: str, part: ByteRange | None = None) -> AbstractAsyncContextManager[FileContent]:
        """Of a file whose size is known, only `part`: then its `span` says which that is.

        Raises RangeNotSatisfiable where the file has no byte of it.
        """
        ...

    async def write(self, path: str, chunks: AsyncIterator[bytes], *, size_hint: int | None = None) -> None:
        """Replace or create a file atomically. If `chunks` raises, the old file stays."""
        ...

    async def list(self, path: str) -> Sequence[FileEntry]: ...

    async def make_directory(self, path: str) -> None: ...

    async def remove(self, path: str) -> None: ...


class Connection(Protocol):
    """A two-way stream of bytes to a program. Raises ProgramFault when the program breaks it off."""

    async def read(self) -> bytes:
        """The next bytes, in order; none once the program has sent everything."""
        ...

    async def write(self, data: bytes) -> None:
        """Send all of `data`; waits while the program does not take it."""
        ...

    async def end(self) -> None:
        """Say that nothing more will be written. The program may go on sending."""
        ...


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

    @property
    def address(self) -> str:
        """Its network address, by which the metadata service knows who asks."""
        ...

    @property
    def lost(self) -> bool:
        """The machine has ended. It still has to be stopped, to remove what it used on the host."""
        ...

    @property
    def frozen(self) -> bool:
        """Nothing happens in it, as far as is known; a call would thaw it."""
        ...

    async def identify(self, identity: Identity) -> None:
        """Tell the machine who it is from now on, and let processes go on that are held since it was saved.

        Comes before any other call to a machine that was started from a memory image."""
        ...

    def dial(self, port: int) -> AbstractAsyncContextManager[Connection]:
        """Connect to a program of the machine, on its loopback interface; closed on leaving.

        The machine stays awake meanwhile. Raises NothingListens."""
        ...

    async def rest(self) -> None:
        """Freeze now if no user process runs."""
        ...

    async def save(self, folder: Path, *, memory: bool = True, go_on: bool = True) -> None:
        """As `Running.save`. With `memory`, the user's processes are held: in the image until the machine
        made from it has been identified, here until the saving is over. Calls wait meanwhile."""
        ...

    async def go_on(self) -> None:
        """Undo a saving with `go_on` False. Idempotent."""
        ...

    async def set_limits(self, limits: Limits) -> None:
        """As `Running.set_limits`; what programs inside see of it is settled by `identify`."""
        ...

    async def resize(self, limits: Limits) -> None:
        """Change what the machine may use while its programs run, and what they see of it as far as can be.
        Raises Conflict when it uses more memory than that, GuestFault when only its guest was not told."""
        ...

    async def set_egress(self, mode: EgressMode) -> None:
        """As `Running.set_egress`."""
        ...

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
