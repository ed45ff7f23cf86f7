"""The little that a machine's first process prints, kept for the case that it ends badly."""

from __future__ import annotations

import asyncio
import os

_KEEP_BYTES = 1 << 14


class Console:
    """Reads a pipe until it has seen enough, then closes it: what a machine prints costs us nothing."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor: int | None = descriptor
        self._seen = bytearray()
        os.set_blocking(descriptor, False)
        asyncio.get_running_loop().add_reader(descriptor, self._read)

    @property
    def text(self) -> str:
        return self._seen.decode(errors="replace").strip()

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            asyncio.get_running_loop().remove_reader(descriptor)
            os.close(descriptor)

    def _read(self) -> None:
        if self._descriptor is None:
            return
        try:
            piece = os.read(self._descriptor, _KEEP_BYTES)
        except BlockingIOError:
            return
        self._seen += piece
        if not piece or len(self._seen) >= _KEEP_BYTES:
            self.close()
