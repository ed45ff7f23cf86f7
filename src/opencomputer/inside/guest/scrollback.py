"""What a process wrote, in order, as far back as its budget reaches."""

from __future__ import annotations

from collections import deque

_COALESCE_BELOW = 16 * 1024
"""Neighbouring pieces of one channel are joined up to this size, so that tiny writes cost little memory."""
_BYTES_PER_CHUNK = 64
"""A channel keeps at most one chunk for this many bytes of its budget: two channels that alternate tiny
writes cannot be joined, and each chunk costs some hundred bytes besides its content."""


class _Chunk:
    __slots__ = ("data", "offset")

    def __init__(self, offset: int, data: bytes | bytearray) -> None:
        self.offset = offset
        self.data = data

    @property
    def end(self) -> int:
        return self.offset + len(self.data)


class _Channel:
    __slots__ = ("chunks", "dropped", "size")

    def __init__(self) -> None:
        self.chunks: deque[_Chunk] = deque()
        self.size = 0
        self.dropped = 0

    def first_ending_after(self, offset: int) -> _Chunk | None:
        chunks = self.chunks
        if not chunks or chunks[-1].end <= offset:
            return None
        if chunks[0].end > offset:
            return chunks[0]
        if chunks[-2].end <= offset:
            return chunks[-1]
        low, high = 1, len(chunks) - 2
        while low < high:
            middle = (low + high) // 2
            if chunks[middle].end > offset:
                high = middle
            else:
                low = middle + 1
        return chunks[low]


class Scrollback:
    """Keeps at least the last `budget` bytes of each channel; whole oldest chunks fall out beyond that.

    Offsets count the bytes of all channels together, in the order they were appended.
    """

    def __init__(self, budget: int) -> None:
        self._budget = budget
        self._most_chunks = max(64, budget // _BYTES_PER_CHUNK)
        self._channels: dict[int, _Channel] = {}
        self._last: _Chunk | None = None
        self._last_channel = 0
        self.end = 0
        """The offset of the next byte."""

    def append(self, channel: int, data: bytes) -> None:
        kept = self._channels.get(channel)
        if kept is None:
            kept = self._channels[channel] = _Channel()
        last = self._last
        if last is not None and self._last_channel == channel and len(last.data) < _COALESCE_BELOW:
            if not isinstance(last.data, bytearray):
                last.data = bytearray(last.data)
            last.data += data
        else:
            self._last = _Chunk(self.end, data)
            self._last_channel = channel
            kept.chunks.append(self._last)
        self.end += len(data)
        kept.size += len(data)
        self._evict(kept)

    def read(self, offset: int, most: int) -> tuple[int, int, bytes] | None:
        """Channel, offset and at most `most` bytes of the oldest retained piece at or after `offset`."""
        found: _Chunk | None = None
        found_channel = 0
        for channel, kept in self._channels.items():
            chunk = kept.first_ending_after(offset)
            if chunk is not None and (found is None or chunk.offset < found.offset):
                found, found_channel = chunk, channel
        if found is None:
            return None
        start = max(0, offset - found.offset)
        return found_channel, found.offset + start, bytes(found.data[start : start + most])

    def _evict(self, kept: _Channel) -> None:
        chunks = kept.chunks
        while len(chunks) > 1 and (
            kept.size - len(chunks[0].data) >= self._budget or len(chunks) > self._most_chunks
        ):
            size = len(chunks.popleft().data)
            kept.size -= size
            kept.dropped += size
