"""After a lost link the replay is reduced to what was not delivered before."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opencomputer.sdk.replay import DeliveredOutput, OutputLost, ReplayFilter
from opencomputer.wire.frames import STDERR, STDOUT, Frame

KEPT = 1024


def fresh(delivered: list[Frame], replay: list[Frame]) -> list[Frame]:
    known = ReplayFilter(KEPT)
    for frame in delivered:
        known.delivered(frame)
    return list(known.fresh(replay))


def test_the_part_that_was_delivered_is_dropped() -> None:
    delivered = [Frame(STDOUT, b"one "), Frame(STDOUT, b"two ")]
    assert fresh(delivered, [Frame(STDOUT, b"one two three")]) == [Frame(STDOUT, b"three")]


def test_frames_keep_their_order_across_channels() -> None:
    delivered = [Frame(STDOUT, b"ab"), Frame(STDERR, b"1")]
    replay = [Frame(STDOUT, b"abc"), Frame(STDERR, b"12"), Frame(STDOUT, b"d")]
    assert fresh(delivered, replay) == [Frame(STDOUT, b"c"), Frame(STDERR, b"2"), Frame(STDOUT, b"d")]


def test_nothing_delivered_means_everything_is_new() -> None:
    assert fresh([], [Frame(STDOUT, b"all")]) == [Frame(STDOUT, b"all")]


def test_nothing_new_means_nothing_comes() -> None:
    assert fresh([Frame(STDOUT, b"all")], [Frame(STDOUT, b"all")]) == []


def test_the_place_is_found_when_the_server_forgot_the_beginning() -> None:
    written = bytes(range(256)) * 2
    delivered = [Frame(STDOUT, written[:400])]
    assert fresh(delivered, [Frame(STDOUT, written[300:])]) == [Frame(STDOUT, written[400:])]


def test_a_short_replay_without_anything_known_is_all_new() -> None:
    """Output of the other stream pushed the known part out of what the server keeps."""
    delivered = [Frame(STDOUT, b"a" * 10), Frame(STDERR, b"e" * 900 + b"f")]
    replay = [Frame(STDERR, b"e" * 100 + b"f"), Frame(STDOUT, b"new")]
    assert fresh(delivered, replay) == [Frame(STDOUT, b"new")]


def test_a_long_replay_without_anything_known_means_that_output_is_lost() -> None:
    with pytest.raises(OutputLost):
        fresh([Frame(STDOUT, b"a" * 10)], [Frame(STDOUT, b"x" * KEPT)])


@given(
    written=st.binary(max_size=300),
    first=st.integers(0, 300),
    piece=st.integers(1, 50),
)
def test_a_complete_replay_is_cut_exactly(written: bytes, first: int, piece: int) -> None:
    """As long as the server forgot nothing, the cut is exact whatever the output looks like."""
    seen = min(first, len(written))
    delivered = [Frame(STDOUT, written[at : at + piece]) for at in range(0, seen, piece)]
    delivered = [Frame(STDOUT, frame.payload) for frame in delivered]
    total = b"".join(frame.payload for frame in delivered)
    rest = b"".join(frame.payload for frame in fresh(delivered, [Frame(STDOUT, written)]))
    assert total + rest == written


@pytest.mark.parametrize("forgotten", [1, 500, 1500, 2400])
def test_unrepetitive_output_is_cut_exactly_even_when_the_beginning_is_forgotten(forgotten: int) -> None:
    written = b"".join(b"%d," % number for number in range(1000))
    delivered = DeliveredOutput(KEPT)
    for at in range(0, 2500, 100):
        delivered.add(written[at : at + 100])
    assert delivered.already_in(written[forgotten:]) == 2500 - forgotten
