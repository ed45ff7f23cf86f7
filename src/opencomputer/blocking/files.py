# Generated from src/opencomputer/sdk/files.py by scripts/generate_blocking.py
"""The blocking twins of `opencomputer.sdk.files`; see there."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from opencomputer.blocking.support.stream import Stream
from opencomputer.blocking.support.threads import fed_from, whole_or_fed
from opencomputer.blocking.support.twin import Twin

if TYPE_CHECKING:
    from collections.abc import Iterable

    from opencomputer.sdk import files as sdk
    from opencomputer.sdk.files import EntryInfo


class Filesystem(Twin):
    """Reads and writes the files of one sandbox.

    Relative paths begin at the home directory. A path that does not exist raises `NotFoundError`.
    """

    def read(self, path: str) -> str:
        """A file's text. Bytes that are not UTF-8 are replaced."""
        return self._run(self._original.read(path))

    def read_bytes(self, path: str) -> bytes:
        """A file's content, which must fit in memory; for large files there is `read_stream`."""
        return self._run(self._original.read_bytes(path))

    def read_stream(self, path: str) -> Stream[bytes]:
        """A file's content in pieces, for files of any size."""
        return Stream(self._original.read_stream(path))

    def write(self, path: str, content: str | bytes | bytearray | Iterable[bytes]) -> None:
        """Replace a file's content, creating the file and its parents where needed.

        An iterable is sent as it comes, for content of any size. Whoever reads the file
        meanwhile sees the old content; when the upload fails, it stays.
        """
        self._run(self._original.write(path, whole_or_fed(content)))

    def write_stream(self, path: str, stream: Iterable[bytes]) -> None:
        """The same as `write`, for code that wants to say that it streams."""
        self._run(self._original.write_stream(path, fed_from(stream)))

    def list(self, path: str = "/") -> list[EntryInfo]:
        """The entries of one directory."""
        return self._run(self._original.list(path))

    def make_dir(self, path: str) -> None:
        """Create a directory and its parents; one that exists is no error."""
        self._run(self._original.make_dir(path))

    def remove(self, path: str) -> None:
        """Remove a file or a whole directory; what does not exist is no error."""
        self._run(self._original.remove(path))

    def exists(self, path: str) -> bool:
        """Whether there is a file that can be read. For a directory this is false.

        Raises only for what says nothing about the file: no access to the sandbox, no server, a failing
        server.
        """
        return self._run(self._original.exists(path))

    @property
    def _original(self) -> sdk.Filesystem:
        return cast("sdk.Filesystem", self._wrapped)
