"""The scrollback keeps at least its budget of each channel, in order, and never much more."""

from __future__ import annotations

import sys

from hypothesis import given
from hypothesis import strategies as st

from opencomputer.inside.guest.scrollback import Scrollback

BUDGET = 1000
writes = st.lists(st.tuples(st.sampled_from([1, 2]), st.binary(min_size=1, max_size=400)), max_size=60)


def everything(log: Scrollback, offset: int = 0, most: int = 1 << 20) -> list[tuple[int, int, bytes]]:
    pieces: list[tuple[int, int, bytes]] = []
    while (piece := log.read(offset, most)) is not None:
        pieces.append(piece)
        offset = piece[1] + len(piece[2])
    return pieces


@given(writes)
def test_what_is_kept_is_the_end_of_each_channel_in_order(written: list[tuple[int, bytes]]) -> None:
    log = Scrollback(BUDGET)
    for channel, data in written:
        log.append(channel, data)
    for channel in (1, 2):
        whole = b"".join(data for each, data in written if each == channel)
        kept = b"".join(data for each, _, data in everything(log) if each == channel)
        assert whole.endswith(kept)
        assert len(kept) >= min(len(whole), BUDGET)
    offsets = [offset for _, offset, _ in everything(log)]
    assert offsets == sorted(offsets)


@given(writes, st.integers(0, 3000), st.integers(1, 500))
def test_offsets_name_the_same_bytes_for_every_reader(
    written: list[tuple[int, bytes]], offset: int, most: int
) -> None:
    log = Scrollback(1 << 20)
    whole = bytearray()
    for channel, data in written:
        log.append(channel, data)
        whole += data
    assert log.end == len(whole)
    for _, start, data in everything(log, offset, most):
        assert start >= offset
        assert len(data) <= most
        assert whole[start : start + len(data)] == data


@given(writes)
def test_reading_along_gives_the_same_as_reading_later(written: list[tuple[int, bytes]]) -> None:
    log = Scrollback(1 << 20)
    along: list[tuple[int, int]] = []
    cursor = 0
    for channel, data in written:
        log.append(channel, data)
        for piece in everything(log, cursor):
            along += [(piece[0], byte) for byte in piece[2]]
            cursor = piece[1] + len(piece[2])
    later = [(channel, byte) for channel, _, data in everything(log) for byte in data]
    assert along == later


def test_tiny_alternating_writes_cost_little_memory() -> None:
    log = Scrollback(1 << 20)
    for _ in range(200_000):
        log.append(1, b"x")
        log.append(2, b"y")
    pieces = everything(log)
    assert len(pieces) <= 2 * (1 << 20) // 64
    assert sum(sys.getsizeof(data) for _, _, data in pieces) < 4 << 20


def test_a_single_write_larger_than_the_budget_is_kept() -> None:
    log = Scrollback(10)
    log.append(1, b"a" * 5)
    log.append(1, b"b" * 65536)
    assert everything(log)[-1][2].endswith(b"b" * 65536)


def test_there_is_nothing_after_the_end() -> None:
    log = Scrollback(10)
    assert log.read(0, 10) is None
    log.append(1, b"abc")
    assert log.read(3, 10) is None
    assert log.read(99, 10) is None
