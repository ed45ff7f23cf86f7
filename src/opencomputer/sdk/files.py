"""Files in a sandbox: `sandbox.files`."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

from opencomputer.sdk import answers
from opencomputer.sdk.control_plane import ASYNC_WAKE, Call, get
from opencomputer.sdk.errors import (
    AuthError,
    ConflictError,
    NotFoundError,
    SandboxStoppedError,
    ValidationError,
)

if TYPE_CHECKING:
    from opencomputer.sdk.sandbox_link import SandboxLink

_CHUNK_BYTES = 256 * 1024
# The server answers an upload only when the bytes are on its disk, which takes long for many.
_UPLOAD_ANSWER_SECONDS = 300.0
_UNCOMPRESSED = {"Accept-Encoding": "identity"}


@dataclass(frozen=True)
class EntryInfo:
    """One entry of a directory. `path` is absolute."""

    name: str
    is_dir: bool
    path: str
    size: int = 0


class Filesystem:
    """Reads and writes the files of one sandbox.

    Relative paths begin at the home directory. A path that does not exist raises `NotFoundError`.
    """

    def __init__(self, link: SandboxLink) -> None:
        self._link = link

    async def read(self, path: str) -> str:
        """A file's text. Bytes that are not UTF-8 are replaced."""
        return (await self.read_bytes(path)).decode("utf-8", errors="replace")

    async def read_bytes(self, path: str) -> bytes:
        """A file's content, which must fit in memory; for large files there is `read_stream`."""
        call = replace(self._reading(path), repeatable=True, headers={**_UNCOMPRESSED, **ASYNC_WAKE})
        return (await self._link.plane.send(call)).content

    async def read_stream(self, path: str) -> AsyncGenerator[bytes]:
        """A file's content in pieces, for files of any size."""
        async with self._link.plane.stream(self._reading(path)) as response:
            async for chunk in response.aiter_bytes(_CHUNK_BYTES):
                yield chunk

    async def write(self, path: str, content: str | bytes | bytearray | AsyncIterable[bytes]) -> None:
        """Replace a file's content, creating the file and its parents where needed.

        An asynchronous iterable is sent as it comes, for content of any size. Whoever reads the file
        meanwhile sees the old content; when the upload fails, it stays.
        """
        sent = _sendable(content)
        whole = isinstance(sent, bytes)
        call = Call(
            "PUT",
            self._link.path("files"),
            repeatable=whole,
            content=sent,
            params={"path": path},
            headers={"Content-Type": "application/octet-stream", **(ASYNC_WAKE if whole else {})},
            timeout_seconds=_UPLOAD_ANSWER_SECONDS,
        )
        await self._link.plane.send(call)

    async def write_stream(self, path: str, stream: AsyncIterable[bytes]) -> None:
        """The same as `write`, for code that wants to say that it streams."""
        await self.write(path, stream)

    async def list(self, path: str = "/") -> list[EntryInfo]:
        """The entries of one directory."""
        call = replace(get(self._link.path("files", "list"), {"path": path}), headers=ASYNC_WAKE)
        answer = await self._link.plane.json(call)
        return [
            EntryInfo(
                name=answers.required_text(item, "name"),
                is_dir=answers.flag(item, "isDir"),
                path=answers.text(item, "path"),
                size=answers.whole(item, "size") or 0,
            )
            for item in answers.json_objects(answer)
        ]

    async def make_dir(self, path: str) -> None:
        """Create a directory and its parents; one that exists is no error."""
        params = {"path": path}
        call = Call("POST", self._link.path("files", "mkdir"), True, params=params, headers=ASYNC_WAKE)
        await self._link.plane.send(call)

    async def remove(self, path: str) -> None:
        """Remove a file or a whole directory; what does not exist is no error."""
        call = Call("DELETE", self._link.path("files"), params={"path": path}, headers=ASYNC_WAKE)
        await self._link.plane.send(call)

    async def exists(self, path: str) -> bool:
        """Whether there is a file that can be read. For a directory this is false.

        Raises only for what says nothing about the file: no access to the sandbox, no server, a failing
        server.
        """
        try:
            async with self._link.plane.stream(self._reading(path)):
                return True
        except AuthError as error:
            if error.status == 401:
                raise
            return False
        except (NotFoundError, ValidationError, ConflictError, SandboxStoppedError):
            return False

    def _reading(self, path: str) -> Call:
        return Call("GET", self._link.path("files"), params={"path": path}, headers=_UNCOMPRESSED)


def _sendable(content: object) -> bytes | AsyncIterator[bytes]:
    if isinstance(content, str):
        return content.encode()
    if isinstance(content, bytes | bytearray):
        return bytes(content)
    # Told before anything is sent.
    if not isinstance(content, AsyncIterable):
        kind = type(content).__name__
        raise TypeError(f"content must be text, bytes or an asynchronous iterable of bytes, not {kind}")
    return _iterated(cast("AsyncIterable[bytes]", content))


async def _iterated(content: AsyncIterable[bytes]) -> AsyncIterator[bytes]:
    async for chunk in content:
        yield chunk
