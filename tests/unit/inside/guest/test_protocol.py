"""The frame codec and the readers of JSON fields, for every split and for hostile bytes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opencomputer.inside.guest import protocol
from opencomputer.inside.guest.protocol import Frame, FrameDecoder, ProtocolError

frames = st.builds(
    Frame,
    st.sampled_from([protocol.REQUEST, protocol.RESPONSE, protocol.DATA, protocol.OUTPUT, protocol.END]),
    st.integers(0, 2**32 - 1),
    st.binary(max_size=300),
)


@given(st.lists(frames, max_size=8), st.data())
def test_frames_survive_any_split(sent: list[Frame], data: st.DataObject) -> None:
    stream = b"".join(map(protocol.encode, sent))
    decoder = FrameDecoder()
    received: list[Frame] = []
    while stream:
        size = data.draw(st.integers(1, len(stream)))
        received += decoder.feed(stream[:size])
        stream = stream[size:]
    assert received == sent


@given(st.lists(st.binary(min_size=1, max_size=200), max_size=20))
def test_hostile_bytes_give_frames_or_a_protocol_error(chunks: list[bytes]) -> None:
    decoder = FrameDecoder()
    try:
        for chunk in chunks:
            for frame in decoder.feed(chunk):
                assert len(frame.payload) <= protocol.MAX_CONTROL
    except ProtocolError:
        pass


@pytest.mark.parametrize(
    ("type", "length"),
    [
        (protocol.DATA, protocol.MAX_DATA + 1),
        (protocol.RESPONSE, protocol.MAX_CONTROL + 1),
        (protocol.CREDIT, 9),
        (protocol.CANCEL, 1),
        (protocol.HELLO, 2**32 - 1),
        (0, 0),
        (99, 0),
    ],
)
def test_a_header_is_refused_before_its_payload_comes(type: int, length: int) -> None:
    with pytest.raises(ProtocolError):
        FrameDecoder().feed(protocol.HEADER.pack(length, type, 1))


def test_a_frame_that_nobody_would_accept_is_not_sent() -> None:
    with pytest.raises(ProtocolError):
        protocol.encode(Frame(protocol.DATA, 1, bytes(protocol.MAX_DATA + 1)))


@given(st.binary(max_size=200))
def test_hostile_json_gives_an_object_or_a_protocol_error(payload: bytes) -> None:
    try:
        assert isinstance(protocol.decode_json(payload), dict)
    except ProtocolError:
        pass


@pytest.mark.parametrize(
    "payload", [b"[" * 100_000, b"[]", b'"x"', b"1" * 10_000, b"\xff", b"", b'{"a":' * 50_000]
)
def test_json_that_is_no_object_is_refused(payload: bytes) -> None:
    with pytest.raises(ProtocolError):
        protocol.decode_json(payload)


@pytest.mark.parametrize("value", [True, 1.5, "1", None, -1, 2**70])
def test_an_integer_is_nothing_else(value: object) -> None:
    with pytest.raises(ProtocolError):
        protocol.integer({"n": value}, "n")


@pytest.mark.parametrize("value", [True, "1", None, float("nan"), float("inf"), 10**400])
def test_a_number_is_finite(value: object) -> None:
    with pytest.raises(ProtocolError):
        protocol.number({"n": value}, "n")


@pytest.mark.parametrize("value", [None, [1], ["a", None], "a", {"a": "b"}])
def test_texts_are_a_list_of_strings(value: object) -> None:
    with pytest.raises(ProtocolError):
        protocol.texts({"t": value}, "t")


@pytest.mark.parametrize("value", [None, [], {"a": 1}, "x"])
def test_a_map_maps_to_strings(value: object) -> None:
    with pytest.raises(ProtocolError):
        protocol.text_map({"m": value}, "m")


@pytest.mark.parametrize("payload", [b"", bytes(9), bytes(10), protocol.OUTPUT_PREFIX.pack(3, 0) + b"x"])
def test_malformed_output_is_refused(payload: bytes) -> None:
    with pytest.raises(ProtocolError):
        protocol.decode_output(payload)
