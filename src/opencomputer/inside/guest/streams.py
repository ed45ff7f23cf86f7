"""The guest's ends of a process's pipes or terminal."""

from __future__ import annotations

import os
from collections import deque

from .loop import READ, WRITE, Loop

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_READ_SIZE = 64 * 1024


class Outputs:
    """Reads every output as soon as there is something, except for the moments in which it is held."""

    def __init__(
        self,
        loop: Loop,
        descriptors: dict[int, int],
        on_data: Callable[[int, bytes], None],
        on_end: Callable[[], None],
    ) -> None:
        self._loop = loop
        self._on_data = on_data
        self._on_end = on_end
        self._open = dict(descriptors)
        self._held = False
        self._readers = {channel: self._reader(channel) for channel in descriptors}
        self.release()

    @property
    def ended(self) -> bool:
        """Whether every process has closed every output, and all of it was read."""
        return not self._open

    def hold(self) -> None:
        """Leave in the pipes what comes; a process that writes more than they take waits."""
        self._held = True
        for descriptor in self._open.values():
            self._loop.unwatch(descriptor)

    def release(self) -> None:
        self._held = False
        for channel, descriptor in self._open.items():
            self._loop.watch(descriptor, READ, self._readers[channel])

    def read_now(self, most: int) -> None:
        """Read what is there already: of every output `most` bytes or a little more, and none while held."""
        for channel in tuple(self._open):
            left = most
            while left > 0 and not self._held and (count := self._read(channel)) > 0:
                left -= count

    def close(self) -> None:
        for channel in list(self._open):
            self._close(channel)

    def _reader(self, channel: int) -> Callable[[int], None]:
        def ready(_events: int) -> None:
            self._read(channel)

        return ready

    def _read(self, channel: int) -> int:
        """Read once; how many bytes that were. 0: there is nothing now, or nothing any more."""
        try:
            data = os.read(self._open[channel], _READ_SIZE)
        except (BlockingIOError, InterruptedError):
            return 0
        except OSError:
            data = b""  # a terminal reports an error when its last process has closed it
        if data:
            self._on_data(channel, data)
            return len(data)
        self._close(channel)
        if self.ended:
            self._on_end()
        return 0

    def _close(self, channel: int) -> None:
        descriptor = self._open.pop(channel)
        self._loop.unwatch(descriptor)
        os.close(descriptor)


class Input:
    """Writes pieces in the order they came, as fast as the process takes them.

    `consumed(count)` of each piece is called for every byte written, and for every byte that can no longer
    be written because the process has closed its input.
    """

    def __init__(self, loop: Loop, descriptor: int) -> None:
        self._loop = loop
        self._descriptor: int | None = descriptor
        self._pieces: deque[tuple[memoryview, Callable[[int], None]]] = deque()
        self._end_wanted = False
        self._watching = False

    def write(self, data: bytes, consumed: Callable[[int], None]) -> None:
        if self._descriptor is None or self._end_wanted:
            consumed(len(data))
            return
        self._pieces.append((memoryview(data), consumed))
        if not self._watching:
            self._write()

    def end(self) -> None:
        """Close the process's input after everything written so far."""
        self._end_wanted = True
        if not self._pieces:
            self.close()

    def close(self) -> None:
        if self._descriptor is None:
            return
        descriptor, self._descriptor = self._descriptor, None
        self._loop.unwatch(descriptor)
        os.close(descriptor)
        pieces, self._pieces = self._pieces, deque()
        for data, consumed in pieces:
            consumed(len(data))

    def _ready(self, _events: int) -> None:
        self._write()

    def _write(self) -> None:
        while self._pieces and self._descriptor is not None:
            data, consumed = self._pieces[0]
            try:
                count = os.write(self._descriptor, data)
            except (BlockingIOError, InterruptedError):
                break
            except OSError:
                self.close()
                return
            if count == len(data):
                self._pieces.popleft()
            else:
                self._pieces[0] = (data[count:], consumed)
            consumed(count)
        if self._descriptor is None:
            return
        if self._pieces:
            self._watching = True
            self._loop.watch(self._descriptor, WRITE, self._ready)
        elif self._watching:
            self._watching = False
            self._loop.unwatch(self._descriptor)
        if self._end_wanted and not self._pieces:
            self.close()
