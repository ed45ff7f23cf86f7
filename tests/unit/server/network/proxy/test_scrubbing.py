"""Tokens in the place of values in what hosts answer."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opencomputer.server.domain.egress import EgressRules, SealedSecret
from opencomputer.server.network.proxy.scrubbing import Scrubber, is_textual, scrubbed_values
from opencomputer.wire.ids import OrgId, SandboxId

VALUES = {b"abcdefgh": b"<1>", b"abcdefghij": b"<2>", b"ghabcdefgh": b"<3>", b"aaaaaaaab": b"<4>"}


def _whole(text: bytes) -> bytes:
    """The slow and obvious way: leftmost first, the longest of those."""
    out, at = b"", 0
    while at < len(text):
        here = [value for value in VALUES if text.startswith(value, at)]
        if here:
            longest = max(here, key=len)
            out, at = out + VALUES[longest], at + len(longest)
        else:
            out, at = out + text[at : at + 1], at + 1
    return out


TEXT = st.lists(
    st.sampled_from([*VALUES, b"abcdef", b"gh", b"ab", b"aaaa", b"b", b"ij", b"\n", b"x" * 30]), max_size=20
).map(b"".join)


@given(TEXT, st.lists(st.integers(1, 12), max_size=60))
def test_an_answer_is_the_same_wherever_it_is_cut(text: bytes, sizes: list[int]) -> None:
    scrubber, out, at = Scrubber(VALUES), b"", 0
    for size in [*sizes, len(text) + 1]:
        out += scrubber.feed(text[at : at + size])
        at += size
    assert out + scrubber.finish() == _whole(text)
    assert Scrubber(VALUES).in_text(text) == _whole(text)


def test_a_live_stream_is_not_held_back() -> None:
    scrubber = Scrubber(VALUES)
    assert scrubber.feed(b"data: one\n\n") == b"data: one\n\n"
    assert scrubber.feed(b"data: abcd") == b"data: "
    assert scrubber.feed(b"x\n\n") == b"abcdx\n\n"


def test_hosts_that_are_named_get_no_scrubbing() -> None:
    rules = EgressRules(
        OrgId("org"),
        SandboxId("sb-00000000"),
        secrets=(
            SealedSecret("NAMED", "t1", "value-one", ("api.example.com",)),
            SealedSecret("BELOW", "t2", "value-two", ("*.example.com",)),
            SealedSecret("ANYWHERE", "t3", "value-three"),
            SealedSecret("STAR", "t4", "value-four", ("*",)),
            SealedSecret("ELSEWHERE", "t5", "value-five", ("other.example.org",)),
            SealedSecret("SHORT", "t6", "1234567"),
        ),
    )
    assert set(scrubbed_values(rules, "api.example.com").values()) == {b"t3", b"t4", b"t5"}


@pytest.mark.parametrize(
    ("content_type", "expected"),
    [(b"text/event-stream", True), (b"application/json; charset=utf-8", True),
     (b"application/hal+json", True), (b"image/png", False), (b"application/zip", False), (b"", False)],
)  # fmt: skip
def test_only_text_is_scrubbed(content_type: bytes, expected: bool) -> None:
    assert is_textual(content_type) is expected


def test_values_made_to_be_nearly_found_everywhere_take_no_time() -> None:
    values = {b"a" * (3000 + number) + b"b": b"<t>" for number in range(50)}
    scrubber, began = Scrubber(values), time.process_time()
    for _ in range(4):
        scrubber.feed(b"a" * 65_000 + b"c")
    assert time.process_time() - began < 4
