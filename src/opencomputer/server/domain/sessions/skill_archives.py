"""Skills in a zip archive, which may have been made to harm whoever unpacks it."""

from __future__ import annotations

import io
import stat
import struct
import zipfile
import zlib
from collections.abc import Sequence

from opencomputer.server.domain.sessions.errors import InvalidSkills
from opencomputer.server.domain.sessions.skills import (
    MAX_BYTES,
    SkillBundle,
    SkillText,
    bundle_of,
    check_count,
    check_path,
    check_size,
    decoded,
    is_executable,
    is_ignored,
)

MAX_ARCHIVE_BYTES = 1 << 20
_MAX_ENTRIES = 1024
"""Folders, and what is ignored, included."""
_ENCRYPTED = 0x1
_UNIX = 3
_METHODS = frozenset({zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED})
_FAULTS = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    NotImplementedError,
    OverflowError,
    RuntimeError,
    UnicodeError,
    ValueError,
)


def unpack(archive: bytes) -> SkillBundle:
    """The skills of an archive. Nothing is written anywhere. Raises InvalidSkills saying what is wrong."""
    try:
        with zipfile.ZipFile(io.BytesIO(archive)) as opened:
            files = _files(opened)
    except _FAULTS as error:
        raise InvalidSkills("the body is not a valid zip archive", field="skills") from error
    bundle = bundle_of(files)
    if bundle is None:
        raise InvalidSkills("the archive has no skills; DELETE removes them all", field="skills")
    return bundle


def _files(opened: zipfile.ZipFile) -> Sequence[SkillText]:
    entries = opened.infolist()
    if len(entries) > _MAX_ENTRIES:
        raise InvalidSkills(f"the archive has more than {_MAX_ENTRIES} entries", field="skills")
    for entry in entries:
        _check_entry(entry)
    wanted = [each for each in entries if not each.is_dir() and not is_ignored(each.filename)]
    check_count(len(wanted))
    check_size(sum(each.file_size for each in wanted))
    files: list[SkillText] = []
    room = MAX_BYTES
    for entry in wanted:
        content = _read(opened, entry, room)
        room -= len(content)
        text = decoded(entry.filename, content)
        files.append(SkillText(entry.filename, text, is_executable(_mode(entry))))
    return files


def _check_entry(entry: zipfile.ZipInfo) -> None:
    """Refuse what is no plain file or folder before anything of it is read."""
    path = check_path(entry.orig_filename.removesuffix("/"))
    if entry.flag_bits & _ENCRYPTED:
        raise InvalidSkills(f"{path}: is encrypted", field="skills")
    kind = stat.S_IFMT(_mode(entry))
    if kind == stat.S_IFLNK:
        raise InvalidSkills(f"{path}: is a symbolic link", field="skills")
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
        raise InvalidSkills(f"{path}: is no ordinary file", field="skills")
    if entry.compress_type not in _METHODS:
        raise InvalidSkills(f"{path}: is compressed in an unusual way; use deflate", field="skills")


def _read(opened: zipfile.ZipFile, entry: zipfile.ZipInfo, room: int) -> bytes:
    """The declared size has been checked, and may be a lie."""
    with opened.open(entry) as source:
        content = source.read(room + 1)
    check_size(MAX_BYTES - room + len(content))
    return content


def _mode(entry: zipfile.ZipInfo) -> int:
    return entry.external_attr >> 16 if entry.create_system == _UNIX else 0
