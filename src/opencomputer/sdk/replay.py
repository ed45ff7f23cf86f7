"""Which bytes of a replayed session the listener has not had yet, after a lost link was opened again.

The server replays the last part of a session's output, in the order of its writing, without saying where in
the session that part begins. Here that place is found again from what was delivered before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from opencomputer.wire.frames import Frame

_PROBE_BYTES = 64


class OutputLost(Exception):
    """More was written while the link was down than the server keeps, so that some of it is gone."""


class DeliveredOutput:
    """The end of one stream as it was delivered, and how long the stream was."""

    def __init__(self, kept_bytes: int) -> None:
        self._kept_bytes = kept_bytes
        self._tail = bytearray()
        self._total = 0

    def add(self, data: bytes) -> None:
        """Note that these bytes were delivered."""
        self._total += len(data)
        self._tail += data
        if len(self._tail) > 2 * self._kept_bytes:
            del self._tail[: -self._kept_bytes]

    def already_in(self, replay: bytes) -> int:
        """How many leading bytes of a replay of this stream were delivered before.

        Raises OutputLost when the replay must begin later than what was delivered ended: the server keeps so
        much that a short replay without anything known in it was only preceded by output of another stream.
        """
        known = self._known_in(replay)
        if self._total and not known and len(replay) >= self._kept_bytes // 2:
            raise OutputLost("some output was lost while the link was down")
        return known

    def _known_in(self, replay: bytes) -> int:
        tail = bytes(self._tail)
        if len(replay) >= self._total and replay[self._total - len(tail) : self._total] == tail:
            return self._total
        if len(tail) < self._total and (position := replay.find(tail)) >= 0:
            return position + len(tail)
        return _overlap(tail, replay)


class ReplayFilter:
    """Drops from each replay what was delivered before, for every channel on its own."""

    def __init__(self, kept_bytes: int) -> None:
        self._kept_bytes = kept_bytes
        self._delivered: dict[int, DeliveredOutput] = {}

    def delivered(self, frame: Frame) -> None:
        """Note that the frame was handed on."""
        self._of(frame.channel).add(frame.payload)

    def fresh(self, replay: Iterable[Frame]) -> Iterator[Frame]:
        """What of a replay is new, in its order. The caller notes it as delivered when it hands it on.

        Raises OutputLost when something between the two is missing.
        """
        frames = list(replay)
        known = {channel: self._known(channel, frames) for channel in {frame.channel for frame in frames}}
        for frame in frames:
            skipped = min(known[frame.channel], len(frame.payload))
            known[frame.channel] -= skipped
            if skipped < len(frame.payload):
                yield Frame(frame.channel, frame.payload[skipped:])

    def _known(self, channel: int, frames: list[Frame]) -> int:
        replay = b"".join(frame.payload for frame in frames if frame.channel == channel)
        return self._of(channel).already_in(replay)

    def _of(self, channel: int) -> DeliveredOutput:
        return self._delivered.setdefault(channel, DeliveredOutput(self._kept_bytes))


def _overlap(tail: bytes, replay: bytes) -> int:
    """The length of the longest end of `tail` that `replay` begins with."""
    probe = replay[:_PROBE_BYTES]
    position = tail.find(probe)
    while position >= 0:
        length = min(len(tail) - position, len(replay))
        if position + length == len(tail) and tail[position:] == replay[:length]:
            return length
        position = tail.find(probe, position + 1)
    return _short_overlap(tail[-_PROBE_BYTES:], replay)


def _short_overlap(tail: bytes, replay: bytes) -> int:
    for length in range(min(len(tail), len(replay)), 0, -1):
        if tail.endswith(replay[:length]):
            return length
    return 0
