"""Disks of a fixed size in ordinary sparse files: an ext4 file system on a loop device.

The device clears itself when its last mount goes, so nobody has to remember it.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import struct
import time
from pathlib import Path

from opencomputer.server.host.kernel import Mount, mount
from opencomputer.server.host.subprocesses import CommandTimedOut, run

_CONTROL = "/dev/loop-control"
_BLOCK_DEVICES = Path("/sys/block")
_GET_FREE = 0x4C82
_CONFIGURE = 0x4C0A
_AUTOCLEAR = 4
_DIRECT_IO = 16
_CONFIG_LAYOUT = "=II 5Q 4I 64s 64s 32s 2Q 8Q"
"""struct loop_config: file, block size, then struct loop_info64 (of which only the flags matter here)."""
SMALLEST_BYTES = 32 << 20
"""Requests for less get this much: a file system needs some room for itself."""
_FORMAT_DEADLINE_SECONDS = 30.0
_ATTEMPTS = 50


class DiskUnavailable(Exception):
    """This host cannot give disks of a fixed size; the message says why."""


def create_disk(file: Path, size_bytes: int) -> None:
    """Make an empty disk. It takes up host space only as it is filled. Raises DiskUnavailable.

    No journal: a machine's disk does not outlive a crash of the host. One inode per 16 KiB, so that many
    small files fit; their tables are only written when they are used.
    """
    with file.open("xb") as sparse:
        sparse.truncate(max(size_bytes, SMALLEST_BYTES))
    argv = [
        "mkfs.ext4", "-q", "-F",
        "-O", "^has_journal,^resize_inode",
        "-E", "lazy_itable_init=1,nodiscard",
        # Nothing is set aside for root: the whole size is the machine's.
        "-m", "0",
        "-i", "16384",
        str(file),
    ]  # fmt: skip
    try:
        done = run(argv, deadline_seconds=_FORMAT_DEADLINE_SECONDS)
    except (OSError, CommandTimedOut) as error:
        raise DiskUnavailable(f"mkfs.ext4 cannot be run: {error}") from error
    if done.exit_code != 0:
        raise DiskUnavailable(done.output.strip())


def copy_disk(source: Path, target: Path) -> None:
    """Copy a disk with its holes. For one that was just created this is much quicker than creating another.

    Nothing is written through to the device of the host, as creating does.
    """
    with source.open("rb") as origin, target.open("xb") as copy:
        size = os.fstat(origin.fileno()).st_size
        copy.truncate(size)
        start = _next_data(origin.fileno(), 0)
        while start is not None:
            end = os.lseek(origin.fileno(), start, os.SEEK_HOLE)
            os.lseek(copy.fileno(), start, os.SEEK_SET)
            while start < end:
                start += os.sendfile(copy.fileno(), origin.fileno(), start, end - start)
            start = _next_data(origin.fileno(), end)


def mount_disk(file: Path, device_node: Path, target: Path) -> None:
    """Mount a disk at `target` for the mount namespace of the calling thread. Raises DiskUnavailable.

    `device_node` is made and names the device for as long as the disk is mounted anywhere.
    """
    try:
        with file.open("r+b") as backing:
            device = _attach(backing.fileno(), device_node)
            try:
                mount_again(device_node, target)
            finally:
                os.close(device)
    except OSError as error:
        raise DiskUnavailable(f"a loop device cannot be used: {error}") from error


def mount_again(device_node: Path, target: Path) -> None:
    """Mount a disk that is mounted in some other mount namespace here too."""
    # `discard`: what is deleted inside becomes free on the host.
    mount(str(device_node), target, kind="ext4", flags=Mount.NO_ACCESS_TIMES, options="discard")


def wait_until_released(file: Path, *, deadline_seconds: float) -> bool:
    """Wait until no loop device uses a disk any more, which is moments after its last process ended."""
    end = time.monotonic() + deadline_seconds
    while _is_attached(file):
        if time.monotonic() > end:
            return False
        time.sleep(0.002)
    return True


def _next_data(file: int, offset: int) -> int | None:
    try:
        return os.lseek(file, offset, os.SEEK_DATA)
    except OSError as error:
        if error.errno == errno.ENXIO:  # there is only a hole after here
            return None
        raise


def _attach(backing: int, device_node: Path) -> int:
    """Bind a free device to a file and return it open: it lives as long as somebody holds it."""
    control = os.open(_CONTROL, os.O_RDWR | os.O_CLOEXEC)
    try:
        for _ in range(_ATTEMPTS):
            number = int(fcntl.ioctl(control, _GET_FREE))
            device = _open_device(number, device_node)
            try:
                _configure(device, backing)
                return device
            except OSError as error:
                os.close(device)
                device_node.unlink()
                if error.errno != errno.EBUSY:  # somebody else was faster: take the next one
                    raise
    finally:
        os.close(control)
    raise OSError(errno.EBUSY, "no loop device could be had")


def _open_device(number: int, device_node: Path) -> int:
    # A node of our own: /dev does not get one for new devices everywhere.
    major, minor = (_BLOCK_DEVICES / f"loop{number}" / "dev").read_text().split(":")
    os.mknod(device_node, stat.S_IFBLK | 0o600, os.makedev(int(major), int(minor)))
    return os.open(device_node, os.O_RDWR | os.O_CLOEXEC)


def _configure(device: int, backing: int) -> None:
    """Direct I/O keeps the data from being cached twice; not every file system offers it."""
    for flags in (_AUTOCLEAR | _DIRECT_IO, _AUTOCLEAR):
        config = struct.pack(
            _CONFIG_LAYOUT, backing, 0, *[0] * 5, 0, 0, 0, flags, b"", b"", b"", 0, 0, *[0] * 8
        )
        try:
            fcntl.ioctl(device, _CONFIGURE, config)
            return
        except OSError as error:
            if error.errno != errno.EINVAL or flags == _AUTOCLEAR:
                raise


def _is_attached(file: Path) -> bool:
    for backing in _BLOCK_DEVICES.glob("loop*/loop/backing_file"):
        try:
            if backing.read_text().strip().removesuffix(" (deleted)") == str(file):
                return True
        except OSError:
            continue
    return False
