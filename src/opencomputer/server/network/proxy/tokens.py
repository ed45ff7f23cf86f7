"""Puts values in the place of sealed tokens, wherever in a request they may be. Pure.

What is unknown stays as it is, byte for byte, and so does what holds no token.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable
from enum import Enum
from urllib.parse import quote, quote_plus, unquote_to_bytes

from opencomputer.server.domain.egress import EgressRules

PREFIX = b"osb_sealed_"
TOKEN_BYTES = len(PREFIX) + 32

_TOKEN = re.compile(PREFIX + rb"[0-9a-f]{32}")
_HEX_DIGITS = re.compile(rb"[0-9a-f]{0,32}")
_BASIC = re.compile(rb"(basic[ \t]+)([A-Za-z0-9+/_-]+={0,2})", re.IGNORECASE)
_NOT_IN_HEADERS = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")


def _either_way(byte: int) -> bytes:
    """A pattern for one character of a query, plain or percent-encoded."""
    plain, high, low = re.escape(bytes([byte])), f"{byte >> 4:x}", f"{byte & 15:x}"
    digits = "".join(f"[{digit}{digit.upper()}]" for digit in (high, low))
    return b"(?:" + plain + b"|%" + digits.encode() + b")"


_QUERY_TOKEN = re.compile(
    b"".join(_either_way(byte) for byte in PREFIX) + rb"(?:[0-9a-f]|%3[0-9]|%6[1-6]){32}"
)


class Notation(Enum):
    """How text is written where a value is put, so that the reader gets the value and nothing breaks."""

    RAW = "raw"
    FORM = "form"
    JSON = "json"

    def write(self, value: bytes) -> bytes:
        if self is Notation.FORM:
            return quote_plus(value, safe="").encode()
        if self is Notation.JSON:
            text = value.decode("utf-8", "surrogateescape")
            return json.dumps(text, ensure_ascii=False)[1:-1].encode("utf-8", "surrogateescape")
        return value


class Substitution:
    """The tokens of one sandbox, as one host may have them. Remembers the names of those it met.

    `used` are those whose values were put in, `withheld` those that were left, because the host must not
    have the value, or because it cannot be written where the token is.
    """

    def __init__(self, rules: EgressRules, host: str | None) -> None:
        """`host` None: no host gets anything, as on connections that anybody could listen to."""
        permitted = rules.secrets_for(host) if host is not None else ()
        self._values = {secret.token.encode(): secret.value.encode() for secret in permitted}
        self._names = {secret.token.encode(): secret.name for secret in rules.secrets}
        self.used: set[str] = set()
        self.withheld: set[str] = set()

    @property
    def possible(self) -> bool:
        """Whether anything could be put in at all."""
        return bool(self._values)

    def in_text(self, text: bytes, notation: Notation = Notation.RAW) -> bytes:
        if PREFIX not in text:
            return text
        return _TOKEN.sub(lambda found: self._value(found[0], found[0], notation.write), text)

    def in_header(self, value: bytes) -> bytes:
        """In a header's value, and in the credentials of `Basic`."""
        replaced = self._in_basic(value)
        if PREFIX not in replaced:
            return replaced
        return _TOKEN.sub(lambda found: self._value(found[0], found[0], _for_header), replaced)

    def in_target(self, target: bytes) -> bytes:
        """In the query of a request's target. The path is left alone."""
        path, mark, query = target.partition(b"?")
        if not mark:
            return target
        return path + mark + _QUERY_TOKEN.sub(self._in_query, query)

    def leave(self, text: bytes) -> None:
        """Take down which tokens go out as they are in `text`."""
        if PREFIX in text:
            self.withheld.update(self._names[token] for token in _TOKEN.findall(text) if token in self._names)

    def _in_query(self, found: re.Match[bytes]) -> bytes:
        return self._value(unquote_to_bytes(found[0]), found[0], lambda value: quote(value, safe="").encode())

    def _in_basic(self, value: bytes) -> bytes:
        found = _BASIC.fullmatch(value)
        if found is None:
            return value
        try:
            credentials = base64.b64decode(found[2] + b"=" * (-len(found[2]) % 4), validate=True)
        except (binascii.Error, ValueError):
            return value
        replaced = self.in_text(credentials)
        return value if replaced == credentials else found[1] + base64.b64encode(replaced)

    def _value(self, token: bytes, written: bytes, write: Callable[[bytes], bytes | None]) -> bytes:
        name = self._names.get(token)
        if name is None:
            return written
        value = self._values.get(token)
        new = write(value) if value is not None else None
        (self.withheld if new is None else self.used).add(name)
        return written if new is None else new


class BodyReplacer:
    """Replaces tokens in a body that comes in pieces, wherever it is cut. Holds back less than one token."""

    def __init__(self, substitution: Substitution, notation: Notation) -> None:
        self._substitution = substitution
        self._notation = notation
        self._held = b""
        self._begun = False

    def feed(self, piece: bytes) -> bytes:
        """What can be passed on now."""
        if not self._begun and piece.strip():
            self._begun = True
            self._notation = _believable(self._notation, piece)
        text = self._held + piece if self._held else piece
        cut = len(text) - held_back(text)
        self._held = text[cut:]
        return self._substitution.in_text(text[:cut], self._notation)

    def finish(self) -> bytes:
        """The rest, which turned out to be no token."""
        rest, self._held = self._held, b""
        return rest


def held_back(text: bytes) -> int:
    """How many bytes at the end could be the beginning of a token."""
    at = text.rfind(PREFIX, -(TOKEN_BYTES - 1))
    if at >= 0:
        digits = _HEX_DIGITS.match(text, at + len(PREFIX))
        if digits is not None and digits.end() == len(text):
            return len(text) - at
    return next(
        (length for length in range(len(PREFIX) - 1, 0, -1) if text.endswith(PREFIX[:length])),
        0,
    )


def notation_of(content_type: bytes) -> Notation:
    kind = content_type.split(b";", 1)[0].strip().lower()
    if kind == b"application/x-www-form-urlencoded":
        return Notation.FORM
    if kind == b"application/json" or kind.endswith(b"+json"):
        return Notation.JSON
    return Notation.RAW


def _believable(notation: Notation, start: bytes) -> Notation:
    """Programs like curl call everything a form that they are not told otherwise of."""
    if notation is not Notation.FORM:
        return notation
    first = start.lstrip()[:1]
    if first in (b"{", b"["):
        return Notation.JSON
    return Notation.RAW if first == b"<" else notation


def _for_header(value: bytes) -> bytes | None:
    """None for a value that would end the header."""
    stripped = value.strip()
    return None if _NOT_IN_HEADERS.search(stripped) else stripped
