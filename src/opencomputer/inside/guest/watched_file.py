"""Small text files that are read often and changed seldom."""

from __future__ import annotations

import os

_MOST_BYTES = 1 << 20


class WatchedFile:
    """The text of a file, read again only when the file looks changed. A missing file is empty."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._seen: tuple[int, int, int] | None = None
        self._text = ""

    def text(self) -> str:
        try:
            found = os.stat(self._path)
            seen = (found.st_ino, found.st_size, found.st_mtime_ns)
            if seen != self._seen:
                with open(self._path, encoding="utf-8", errors="surrogateescape") as file:
                    self._text = file.read(_MOST_BYTES)
                self._seen = seen
        except OSError:
            self._seen, self._text = None, ""
        return self._text
