"""Files of a machine in memory."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager

from opencomputer.server.contracts.machine import FileContent, FileEntry
from opencomputer.server.domain.byte_ranges import ByteRange
from opencomputer.server.domain.errors import FileMissing, OpenComputerError


class MemoryFiles:
    """Implements Files, as far as whole files go. `fail_on` has paths that cannot be written, and why."""

    def __init__(self) -> None:
        self.content: dict[str, bytes] = {}
        self.directories: set[str] = set()
        self.fail_on: dict[str, OpenComputerError] = {}

    @asynccontextmanager
    async def read(self, path: str, part: ByteRange | None = None) -> AsyncGenerator[FileContent]:
        assert part is None
        if path not in self.content:
            raise FileMissing
        content = self.content[path]
        yield FileContent(len(content), _whole(content))

    async def write(self, path: str, chunks: AsyncIterator[bytes], *, size_hint: int | None = None) -> None:
        content = b"".join([chunk async for chunk in chunks])
        assert size_hint in (None, len(content))
        if path in self.fail_on:
            raise self.fail_on[path]
        self.content[path] = content

    async def list(self, path: str) -> Sequence[FileEntry]:
        below = [name for name in self.content if name.startswith(f"{path}/")]
        return [FileEntry(name[len(path) + 1 :], name, False, len(self.content[name])) for name in below]

    async def make_directory(self, path: str) -> None:
        self.directories.add(path)

    async def remove(self, path: str) -> None:
        self.content.pop(path, None)


async def _whole(content: bytes) -> AsyncIterator[bytes]:
    yield content
