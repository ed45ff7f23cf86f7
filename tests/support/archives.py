"""Zip archives for tests, good ones and such as nobody should unpack."""

from __future__ import annotations

import io
import stat
import zipfile
from collections.abc import Mapping

GOOD: Mapping[str, str] = {
    "greet/SKILL.md": "---\nname: greeting\ndescription: How to greet.\n---\nSay hello.\n",
    "greet/words/hello.txt": "hello\n",
    "bare/SKILL.md": "No front matter.\n",
}


def zipped(
    files: Mapping[str, str | bytes],
    *,
    modes: Mapping[str, int] | None = None,
    method: int = zipfile.ZIP_DEFLATED,
) -> bytes:
    """An archive with these files; `modes` holds Unix modes, with the kind of file in them."""
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", method) as archive:
        for path, content in files.items():
            entry = zipfile.ZipInfo(path)
            entry.compress_type = method
            entry.create_system = 3
            entry.external_attr = (modes or {}).get(path, stat.S_IFREG | 0o644) << 16
            archive.writestr(entry, content)
    return held.getvalue()


def with_declared_size(archive: bytes, size: int) -> bytes:
    """The same with another uncompressed size in every header: a lie."""
    told = size.to_bytes(4, "little")
    changed = bytearray(archive)
    for signature, offset in ((b"PK\x01\x02", 24), (b"PK\x03\x04", 22)):
        at = changed.find(signature)
        while at >= 0:
            changed[at + offset : at + offset + 4] = told
            at = changed.find(signature, at + 4)
    return bytes(changed)
