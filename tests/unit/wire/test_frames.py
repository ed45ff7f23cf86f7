"""The frame codec keeps the exact bytes of the wire contract."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opencomputer.wire import frames


@pytest.mark.parametrize(
    ("message", "hexadecimal"),
    [
        (frames.encode(frames.STDIN, b"ls\n"), "00 6c 73 0a"),
        (frames.encode(frames.STDOUT, b"hi\n"), "01 68 69 0a"),
        (frames.encode(frames.STDERR, b"err"), "02 65 72 72"),
        (frames.encode(frames.SCROLLBACK_END), "04"),
        (frames.encode_exit(7), "03 00 00 00 07"),
        (frames.encode_exit(frames.UNKNOWN_EXIT_CODE), "03 ff ff ff ff"),
    ],
)
def test_each_frame_has_the_bytes_of_the_contract(message: bytes, hexadecimal: str) -> None:
    assert message == bytes.fromhex(hexadecimal)


@given(channel=st.integers(0, 255), payload=st.binary())
def test_decoding_returns_what_was_encoded(channel: int, payload: bytes) -> None:
    assert frames.decode(frames.encode(channel, payload)) == frames.Frame(channel, payload)


@given(code=st.integers(-(2**31), 2**31 - 1))
def test_an_exit_code_survives_the_round_trip(code: int) -> None:
    frame = frames.decode(frames.encode_exit(code))
    assert frame is not None
    assert frames.exit_code(frame.payload) == code


@pytest.mark.parametrize("payload", [b"", b"\x01", b"\x01\x02\x03"])
def test_a_short_exit_payload_reads_as_zero(payload: bytes) -> None:
    assert frames.exit_code(payload) == 0


def test_an_empty_message_is_no_frame() -> None:
    assert frames.decode(b"") is None


@pytest.mark.parametrize("size", [0, 1, frames.MAX_PAYLOAD_BYTES, frames.MAX_PAYLOAD_BYTES + 1, 200_000])
def test_long_data_is_split_within_the_limit_and_stays_in_order(size: int) -> None:
    data = bytes(index % 251 for index in range(size))
    decoded = [frames.decode(message) for message in frames.encode_all(frames.STDIN, data)]
    payloads = [frame.payload for frame in decoded if frame is not None]
    assert b"".join(payloads) == data
    assert all(0 < len(payload) <= frames.MAX_PAYLOAD_BYTES for payload in payloads)
