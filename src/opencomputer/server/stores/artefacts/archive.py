"""GNU tar: a folder as one stream of bytes that depends on nothing but its content, and back.

A layer consists of more than files: devices by which an overlay marks deletions, extended attributes by which
it marks opaque and renamed folders, hard links, holes, names in any encoding. All of it survives.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from opencomputer.server.stores.artefacts.failures import ArchiveFailed

CHUNK_BYTES = 4 << 20
_DEADLINE_SECONDS = 3600.0
_ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C", "TZ": "UTC"}

_FAITHFUL = ["--numeric-owner", "--xattrs", "--xattrs-include=*", "--acls"]
"""Owners as numbers, because names mean something else on another host. Without the second pattern tar leaves
out all attributes but the user's."""

_HOST_BOUND = [
    f"--xattrs-exclude=trusted.overlay.{name}" for name in ("origin", "impure", "nlink", "uuid", "upper")
]
"""Where an overlay notes file handles and counts of its own layers on this host. They would make equal layers
differ, and a lower layer needs none but `origin`, which `settling` puts back where it matters."""

_CREATE = [
    "tar",
    "--create",
    "--format=posix",  # the only one that has nanoseconds and attributes
    "--sort=name",  # folders list their names in any order
    *_FAITHFUL,
    *_HOST_BOUND,
    "--sparse",
    "--sparse-version=0.0",  # the later ones put tar's process id into names
    # Header names would contain the process id too, and times of access belong to the reader.
    "--pax-option=exthdr.name=%d/PaxHeaders/%f,exthdr.mtime=0,delete=atime,delete=ctime",
    "--file=-",
]
_EXTRACT = ["tar", "--extract", *_FAITHFUL, "--same-owner", "--preserve-permissions", "--file=-"]


def pack(folder: Path) -> Generator[bytes]:
    """The archive of a folder, in pieces. Does not end but raises ArchiveFailed if it is not whole."""
    with _tar([*_CREATE, "--directory", str(folder), "."], reads=False) as stream:
        while chunk := stream.read(CHUNK_BYTES):
            yield chunk


def unpack(archive: Iterable[bytes], folder: Path) -> None:
    """Fill an existing, empty folder. Raises ArchiveFailed, and whatever `archive` raises."""
    with _tar([*_EXTRACT, "--directory", str(folder)], reads=True) as stream:
        for chunk in archive:
            try:
                stream.write(chunk)
            except BrokenPipeError:
                return  # it has ended, and its exit code says why


@contextmanager
def _tar(argv: Sequence[str], *, reads: bool) -> Generator[IO[bytes]]:
    """A running tar and our end of its pipe. It is gone afterwards, however this ends."""
    said = os.memfd_create("tar-said")
    process = subprocess.Popen(
        argv,
        stdin=subprocess.PIPE if reads else subprocess.DEVNULL,
        stdout=subprocess.DEVNULL if reads else subprocess.PIPE,
        stderr=said,
        env=_ENVIRONMENT,
        start_new_session=True,
    )
    deadline = threading.Timer(_DEADLINE_SECONDS, process.kill)
    deadline.daemon = True
    deadline.start()
    stream = process.stdin if reads else process.stdout
    assert stream is not None
    try:
        yield stream
        _close(stream)
        if process.wait() != 0:
            raise ArchiveFailed(f"tar ended with {process.returncode}: {_tail(said)}")
    finally:
        deadline.cancel()
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        _close(stream)
        os.close(said)


def _close(stream: IO[bytes]) -> None:
    try:
        stream.close()
    except BrokenPipeError:
        pass  # what was still buffered; tar's exit code says why it did not want it


def _tail(descriptor: int) -> str:
    size = os.fstat(descriptor).st_size
    return os.pread(descriptor, 600, max(0, size - 600)).decode(errors="replace").strip()
