"""Values in the place of tokens, wherever a request has them."""

from __future__ import annotations

import base64
import json
from itertools import pairwise
from urllib.parse import parse_qs

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opencomputer.server.domain.egress import EgressRules, SealedSecret
from opencomputer.server.network.proxy.tokens import (
    TOKEN_BYTES,
    BodyReplacer,
    Notation,
    Substitution,
    held_back,
    notation_of,
)
from opencomputer.wire.ids import OrgId, SandboxId

TOKEN, OTHER, UNKNOWN = ("osb_sealed_" + digit * 32 for digit in "ab0")
HOST = "api.example.com"


def _rules(value: str = "real-value", **more: tuple[str, ...]) -> EgressRules:
    mine = SealedSecret("KEY", TOKEN, value, more.get("hosts", (HOST,)))
    elsewhere = SealedSecret("ELSEWHERE", OTHER, "not-for-this-host", ("other.example.com",))
    return EgressRules(OrgId("org"), SandboxId("sb-00000000"), secrets=(mine, elsewhere))


def _substitution(value: str = "real-value") -> Substitution:
    return Substitution(_rules(value), HOST)


def _split(text: bytes, cuts: list[int]) -> list[bytes]:
    places = [0, *sorted(cut % (len(text) + 1) for cut in cuts), len(text)]
    return [text[start:end] for start, end in pairwise(places)]


def _through(pieces: list[bytes], notation: Notation = Notation.RAW) -> bytes:
    replacer = BodyReplacer(_substitution(), notation)
    return b"".join(map(replacer.feed, pieces)) + replacer.finish()


NEARLY = st.sampled_from(
    [
        TOKEN.encode(),
        OTHER.encode(),
        UNKNOWN.encode(),
        b"osb_sealed_",
        b"osb_",
        b"o",
        b"a" * 31,
        b"osb_sealed_a",
    ]
)
BODY = st.lists(st.one_of(st.binary(max_size=40), NEARLY), max_size=12).map(b"".join)


@given(BODY, st.lists(st.integers(0, 2000), max_size=20))
def test_a_body_is_the_same_wherever_it_is_cut(body: bytes, cuts: list[int]) -> None:
    assert _through(_split(body, cuts)) == body.replace(TOKEN.encode(), b"real-value")


@given(st.binary(max_size=3000), st.lists(st.integers(0, 3000), max_size=20))
def test_a_body_without_a_token_is_the_same_to_the_byte(body: bytes, cuts: list[int]) -> None:
    assert _through(_split(body, cuts)) == body


@given(BODY)
def test_less_than_one_token_is_held_back(body: bytes) -> None:
    assert 0 <= held_back(body) < TOKEN_BYTES


def test_nothing_is_held_back_that_cannot_be_a_token() -> None:
    assert held_back(b"data: hello world\n\n") == 0
    assert held_back(b"osb_sealed_" + b"g") == 0
    assert held_back(b"x" + TOKEN.encode()[:-1]) == TOKEN_BYTES - 1
    assert held_back(b"foo") == 1


def test_tokens_for_other_hosts_and_of_nobody_go_out_as_they_are() -> None:
    substitution = _substitution()
    text = f"{TOKEN} {OTHER} {UNKNOWN}".encode()
    assert substitution.in_text(text) == f"real-value {OTHER} {UNKNOWN}".encode()
    assert (substitution.used, substitution.withheld) == ({"KEY"}, {"ELSEWHERE"})


def test_without_a_host_everything_is_withheld() -> None:
    substitution = Substitution(_rules(hosts=()), None)
    substitution.leave(TOKEN.encode())
    assert substitution.in_header(TOKEN.encode()) == TOKEN.encode()
    assert (substitution.possible, substitution.withheld) == (False, {"KEY"})


def test_a_token_inside_basic_credentials_is_found() -> None:
    given = b"Basic " + base64.b64encode(f"user:{TOKEN}".encode())
    assert _substitution().in_header(given) == b"Basic " + base64.b64encode(b"user:real-value")


@pytest.mark.parametrize(
    "value", [b"Basic", b"Basic !!!", b"Basic dXNlcjpwYXNz", b"basic  Zg", b"Bearer x", b""]
)
def test_other_credentials_are_the_same_to_the_byte(value: bytes) -> None:
    assert _substitution().in_header(value) == value


def test_a_value_that_would_end_the_header_is_withheld() -> None:
    substitution = _substitution("a\r\nX-Injected: 1")
    assert substitution.in_header(TOKEN.encode()) == TOKEN.encode()
    assert substitution.withheld == {"KEY"}
    assert _substitution("typed-with-return\n").in_header(TOKEN.encode()) == b"typed-with-return"


@pytest.mark.parametrize("written", [TOKEN, TOKEN.replace("_", "%5F"), TOKEN.replace("a", "%61"),
                                     "".join(f"%{ord(character):02x}" for character in TOKEN)])  # fmt: skip
def test_a_token_in_a_query_is_found_in_any_writing(written: str) -> None:
    target = _substitution("a&b=c d+e/é").in_target(f"/path/{TOKEN}?x=1&key={written}&y".encode())
    path, _, query = target.decode().partition("?")
    assert path == f"/path/{TOKEN}"
    assert parse_qs(query, keep_blank_values=True) == {"x": ["1"], "key": ["a&b=c d+e/é"], "y": [""]}


def test_a_target_without_a_token_is_the_same_to_the_byte() -> None:
    for target in (b"/a%2fb?x=%zz&&;=%6F+", b"/", b"*", f"/{TOKEN}".encode(), f"/?k={UNKNOWN}".encode()):
        assert _substitution().in_target(target) == target


def test_a_value_is_written_as_the_body_is() -> None:
    value = 'a"b\\c&d=é\n'
    substitution = _substitution(value)
    as_json = substitution.in_text(f'{{"k":"{TOKEN}"}}'.encode(), Notation.JSON)
    assert json.loads(as_json) == {"k": value}
    as_form = substitution.in_text(f"k={TOKEN}&x=1".encode(), Notation.FORM)
    assert parse_qs(as_form.decode()) == {"k": [value], "x": ["1"]}


def test_what_is_called_a_form_but_is_none_is_not_written_as_one() -> None:
    """curl says so of everything that it sends with -d."""
    value = "a/b+c"

    def sent(body: bytes) -> bytes:
        replacer = BodyReplacer(_substitution(value), Notation.FORM)
        return replacer.feed(b" ") + replacer.feed(body) + replacer.finish()

    assert json.loads(sent(f'{{"k":"{TOKEN}"}}'.encode())) == {"k": value}
    assert sent(f"<k>{TOKEN}</k>".encode()) == f" <k>{value}</k>".encode()
    assert sent(f"k={TOKEN}".encode()) == b" k=a%2Fb%2Bc"


@pytest.mark.parametrize(
    ("content_type", "expected"),
    [(b"application/json; charset=utf-8", Notation.JSON), (b"application/ld+json", Notation.JSON),
     (b"Application/X-WWW-Form-Urlencoded", Notation.FORM), (b"multipart/form-data", Notation.RAW),
     (b"", Notation.RAW)],
)  # fmt: skip
def test_the_notation_follows_the_content_type(content_type: bytes, expected: Notation) -> None:
    assert notation_of(content_type) is expected
