"""What is done to files, each step blocking: these functions run in worker threads."""

from __future__ import annotations

import errno
import os
import stat

from . import protocol
from .paths import FILE_MODE, Ownership
from .requests import Refusal

_LISTING_PIECE = protocol.MAX_PIECE // 2
_COPY_SIZE = 1 << 20


class FileSource:
    """A file that is read piece by piece. `size` is None where it cannot be known beforehand.

    Where it is known, at most `count` bytes are read, from `offset` on; a negative one counts from the end.
    """

    def __init__(self, path: str, offset: int = 0, count: int | None = None) -> None:
        # Without O_NONBLOCK, opening a FIFO would wait for its writer.
        self._descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
        try:
            found = os.fstat(self._descriptor)
            if not stat.S_ISREG(found.st_mode):
                raise Refusal(protocol.NOT_A_FILE, f"{path} is not a regular file")
            self.size = None if found.st_dev in _pseudo_devices() else found.st_size
            self.start = 0 if self.size is None else _place(offset, self.size)
            if self.start:
                os.lseek(self._descriptor, self.start, os.SEEK_SET)
        except BaseException:
            os.close(self._descriptor)
            raise
        self._left = None if self.size is None else self.size - self.start
        if self._left is not None and count is not None:
            self._left = min(self._left, count)
        self._path = path

    def read(self) -> bytes:
        """The next piece; empty at the end. Never more than was there at first: the file may be growing."""
        most = protocol.MAX_PIECE if self._left is None else min(self._left, protocol.MAX_PIECE)
        if most == 0:
            return b""
        piece = os.read(self._descriptor, most)
        if self._left is not None:
            if not piece:
                raise Refusal(protocol.INTERRUPTED, f"{self._path} became shorter while it was read")
            self._left -= len(piece)
        return piece

    def close(self) -> None:
        os.close(self._descriptor)


def _place(offset: int, size: int) -> int:
    return min(offset, size) if offset >= 0 else max(0, size + offset)


class ListingSource:
    """The entries of a folder, sorted by name, as lines of JSON `{"n": name, "d": is folder, "s": size}`."""

    def __init__(self, path: str) -> None:
        try:
            self._names = sorted(os.listdir(path), reverse=True)
        except NotADirectoryError as error:
            code = protocol.NOT_A_DIRECTORY if os.path.lexists(path) else protocol.FILE_MISSING
            raise Refusal(code, f"{path} is not a directory") from error
        self._path = path
        self.size: int | None = None
        self.start = 0
        self.shown_path = os.path.realpath(path) if ".." in path.split("/") else os.path.normpath(path)

    def read(self) -> bytes:
        piece = bytearray()
        while self._names and len(piece) < _LISTING_PIECE:
            name = self._names.pop()
            found = self._stat(os.path.join(self._path, name))
            if found is None:
                continue
            is_folder = stat.S_ISDIR(found.st_mode)
            printable = name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
            entry: protocol.JsonObject = {
                "n": printable,
                "d": is_folder,
                "s": 0 if is_folder else found.st_size,
            }
            piece += protocol.encode_json(entry) + b"\n"
        return bytes(piece)

    def close(self) -> None:
        self._names.clear()

    def _stat(self, path: str) -> os.stat_result | None:
        for follow in (True, False):
            try:
                return os.stat(path, follow_symlinks=follow)
            except OSError:
                continue
        return None


class PendingWrite:
    """A file that is being written beside its place. `commit` puts it there; `abort` leaves no trace."""

    def __init__(self, path: str, ownership: Ownership, size_hint: int | None) -> None:
        target = os.path.realpath(path)
        if path.endswith("/"):
            raise Refusal(protocol.NOT_A_FILE, f"{path} names a directory")
        self._existing = _existing_file(target)
        self._target = target
        self._ownership = ownership
        folder = os.path.dirname(target)
        ownership.make_folders(folder)
        self._owner = ownership.for_new_in(folder)
        if size_hint is not None:
            space = os.statvfs(folder)
            if size_hint > space.f_bavail * space.f_frsize:
                raise Refusal(protocol.DISK_FULL, f"{path}: there is no room for {size_hint} bytes")
        self._temporary = os.path.join(folder, f".oc-{os.urandom(8).hex()}.tmp")
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        self._descriptor = os.open(self._temporary, flags, 0o600)

    def write(self, pieces: list[bytes]) -> int:
        """Append everything; how many bytes that were."""
        for piece in pieces:
            view = memoryview(piece)
            while view:
                view = view[os.write(self._descriptor, view) :]
        return sum(map(len, pieces))

    def commit(self) -> None:
        """Put the new file in its place, all at once for every reader."""
        if self._existing is None:
            self._ownership.give(self._descriptor, self._owner, FILE_MODE)
        else:
            owner = self._existing.st_uid, self._existing.st_gid
            self._ownership.give(self._descriptor, owner, stat.S_IMODE(self._existing.st_mode))
        os.fsync(self._descriptor)
        try:
            os.rename(self._temporary, self._target)
        except OSError as error:
            if error.errno != errno.EBUSY:
                raise
            self._copy_in_place()  # a mounted file cannot be replaced, only rewritten
        os.close(self._descriptor)

    def abort(self) -> None:
        os.close(self._descriptor)
        try:
            os.unlink(self._temporary)
        except FileNotFoundError:
            pass

    def _copy_in_place(self) -> None:
        target = os.open(self._target, os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC)
        try:
            os.lseek(self._descriptor, 0, os.SEEK_SET)
            while piece := os.read(self._descriptor, _COPY_SIZE):
                view = memoryview(piece)
                while view:
                    view = view[os.write(target, view) :]
        finally:
            os.close(target)
        os.unlink(self._temporary)


def remove(path: str) -> None:
    """Remove a file or a whole folder. A missing one is no error. Symbolic links are not followed."""
    if path == "/":
        raise Refusal(protocol.INVALID, "The root directory cannot be removed.")
    try:
        found = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return
    if not stat.S_ISDIR(found.st_mode):
        os.unlink(path)
        return
    above = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        _remove_folder(above, os.path.basename(path))
    finally:
        os.close(above)


class _Level:
    """One open folder on the way down."""

    __slots__ = ("descriptor", "folders", "name")

    def __init__(self, above: int, name: str) -> None:
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        self.descriptor = os.open(name, flags, dir_fd=above)
        self.name = name
        self.folders: list[str] = []
        with os.scandir(self.descriptor) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    self.folders.append(entry.name)
                else:
                    os.unlink(entry.name, dir_fd=self.descriptor)


def _remove_folder(above: int, name: str) -> None:
    """By descriptors and without recursion: neither deep trees nor swapped links lead astray."""
    levels = [_Level(above, name)]
    try:
        while levels:
            level = levels[-1]
            if level.folders:
                levels.append(_Level(level.descriptor, level.folders.pop()))
                continue
            levels.pop()
            os.close(level.descriptor)
            os.rmdir(level.name, dir_fd=levels[-1].descriptor if levels else above)
    finally:
        for level in levels:
            os.close(level.descriptor)


def _existing_file(path: str) -> os.stat_result | None:
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    except NotADirectoryError as error:
        raise Refusal(protocol.FILE_CONFLICT, f"{path}: a file is in the way") from error
    if not stat.S_ISREG(found.st_mode):
        raise Refusal(protocol.NOT_A_FILE, f"{path} is not a regular file")
    return found


def _pseudo_devices() -> set[int]:
    devices: set[int] = set()
    for mount in ("/proc", "/sys"):
        try:
            devices.add(os.stat(mount).st_dev)
        except OSError:
            continue
    # Where nothing is mounted there, they are plain folders of the root file system.
    devices.discard(os.stat("/").st_dev)
    return devices
