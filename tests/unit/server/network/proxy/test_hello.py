"""What the first bytes of a connection say."""

from __future__ import annotations

import ssl

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opencomputer.server.network.proxy.hello import (
    NOTHING_KNOWN,
    Beginning,
    Kind,
    recognise,
    split_authority,
    valid_host,
)


def client_hello(host: str | None) -> bytes:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = context.wrap_bio(incoming, outgoing, server_hostname=host)
    with pytest.raises(ssl.SSLWantReadError):
        tls.do_handshake()
    return outgoing.read()


def in_records(hello: bytes, size: int) -> bytes:
    body = hello[5:]
    pieces = (body[at : at + size] for at in range(0, len(body), size))
    return b"".join(b"\x16\x03\x01" + len(piece).to_bytes(2, "big") + piece for piece in pieces)


@pytest.mark.parametrize("host", ["api.example.com", None])
def test_a_client_hello_is_understood_at_its_last_byte(host: str | None) -> None:
    hello = client_hello(host)
    assert [recognise(hello[:length]) for length in range(len(hello))] == [None] * len(hello)
    assert recognise(hello) == recognise(hello + b"more") == Beginning(Kind.TLS, host)


@pytest.mark.parametrize("size", [1, 7, 100])
def test_a_client_hello_may_be_spread_over_records(size: int) -> None:
    """Cut in the middle of the name, a filter that looks at one record would see none."""
    assert recognise(in_records(client_hello("api.example.com"), size)) == Beginning(
        Kind.TLS, "api.example.com"
    )


@given(st.binary(max_size=300))
def test_nonsense_is_never_an_error(noise: bytes) -> None:
    hello = client_hello("a.example.com")
    for start in (
        noise,
        b"\x16" + noise,
        hello[:60] + noise,
        b"\x16\x03\x01\x00\x30\x01\x00\x00\x2c" + noise,
    ):
        recognise(start)


@given(st.integers(5, 200), st.integers(0, 255))
def test_a_changed_hello_is_never_an_error(place: int, byte: int) -> None:
    hello = bytearray(client_hello("a.example.com"))
    hello[place] = byte
    recognise(bytes(hello))


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        (b"", None),
        (b"GET", None),
        (b"GET / HTTP/1.1\r\nHost: a.test\r\n", None),
        (b"GET / HTTP/1.1\r\nHost: A.test:8080\r\n\r\n", Beginning(Kind.HTTP, "a.test")),
        (b"GET / HTTP/1.0\r\nX: y\r\n\r\n", Beginning(Kind.HTTP)),
        (b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", Beginning(Kind.HTTP, "")),
        (b"GET / HTTP/1.1\r\nHost: a b\r\n\r\n", Beginning(Kind.HTTP, "")),
        (b"PRI * HTTP/2.0\r\n\r\n", NOTHING_KNOWN),
        (b"PING\r\n", NOTHING_KNOWN),
        (b"SSH-2.0-x\r\n", NOTHING_KNOWN),
        (b"\x00\x01", NOTHING_KNOWN),
    ],
)
def test_first_words(start: bytes, expected: Beginning | None) -> None:
    assert recognise(start) == expected


@pytest.mark.parametrize("name", ["", ".", "a..b", "-a", "a b", "a/b", "é.example", "a" * 64, "a\x00b", "*"])
def test_what_cannot_be_a_name_is_none(name: str) -> None:
    assert valid_host(name) is None


def test_names_have_one_form() -> None:
    assert valid_host("API.Example.COM.") == "api.example.com"
    assert valid_host("_x.y_z.test") == "_x.y_z.test"


@pytest.mark.parametrize(
    ("text", "expected"),
    [("a:1", ("a", 1)), ("a", ("a", 7)), ("[::1]:2", ("[::1]", 2)), ("a:0", None), ("a:65536", None),
     ("::1", None), ("a:b", None), ("", None), ("a@b:1", None), ("a:1\n", None)],
)  # fmt: skip
def test_authorities(text: str, expected: tuple[str, int] | None) -> None:
    assert split_authority(text, 7) == expected
