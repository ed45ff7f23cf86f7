"""Puts tokens in the place of values in what hosts answer, for hosts that do not get a value on purpose.

A value that a host sends back would otherwise be read inside the machine. This is a net, not a wall: a host
can send it in any disguise.
"""

from __future__ import annotations

import heapq
import re

from opencomputer.server.domain.egress import EgressRules, matches_any

LEAST_BYTES = 8
"""Shorter values are left: they would be found everywhere by chance."""
MOST_BYTES = 8 * 1024
"""Longer values are left: what has to be held back of a live stream would be too much."""

_PROBE = LEAST_BYTES
_MOST_PROBES = 64
"""Values made to be nearly found everywhere must not keep the node busy; they are found less well."""
_TEXTUAL = re.compile(
    rb"text/.*|application/(json|xml|javascript|x-javascript|ecmascript|graphql|x-www-form-urlencoded|x-ndjson"
    rb"|jsonl|yaml|x-yaml|toml|problem)|.*\+(json|xml|yaml)",
)


def scrubbed_values(rules: EgressRules, host: str) -> dict[bytes, bytes]:
    """Value → token, of every secret in whose own list this host is not named. `*` names nobody."""
    return {
        secret.value.encode(): secret.token.encode()
        for secret in rules.secrets
        if LEAST_BYTES <= len(secret.value.encode()) <= MOST_BYTES
        and not matches_any((pattern for pattern in secret.hosts if pattern != "*"), host)
    }


def is_textual(content_type: bytes) -> bool:
    return _TEXTUAL.fullmatch(content_type.split(b";", 1)[0].strip().lower()) is not None


class Scrubber:
    """Replaces values in a stream, the leftmost and then the longest one first, wherever it is cut.

    Holds back only what may be the beginning of a value.
    """

    def __init__(self, values: dict[bytes, bytes]) -> None:
        self._values = values
        self._longest = max(map(len, values), default=0)
        self._held = b""

    def feed(self, piece: bytes) -> bytes:
        """What can be passed on now."""
        text = self._held + piece if self._held else piece
        passed, rest = self._replace(text, self._pending(text, 0))
        self._held = text[rest:]
        return passed

    def finish(self) -> bytes:
        rest, self._held = self._held, b""
        return self.in_text(rest)

    def in_text(self, text: bytes) -> bytes:
        return self._replace(text, len(text))[0]

    def _replace(self, text: bytes, pending: int) -> tuple[bytes, int]:
        """The text with values replaced, up to where something `pending` begins; and where that is."""
        found = [(text.find(value), -len(value), value) for value in self._values if value in text]
        heapq.heapify(found)
        whole, pieces, position = pending == len(text), list[bytes](), 0
        while found:
            at, _, value = heapq.heappop(found)
            if at >= pending:
                break
            if at >= position:
                pieces += (text[position:at], self._values[value])
                position = at + len(value)
                if position > pending and not whole:
                    pending = self._pending(text, position)
            again = text.find(value, position)
            if again >= 0:
                heapq.heappush(found, (again, -len(value), value))
        pieces.append(text[position:pending])
        return b"".join(pieces), pending

    def _pending(self, text: bytes, start: int) -> int:
        """Where the longest end of `text`, from `start` on, begins that some value begins with."""
        start = max(start, len(text) - self._longest + 1)
        held = (_overlap(text, value, max(start, len(text) - len(value) + 1)) for value in self._values)
        return len(text) - max(held, default=0)


def _overlap(text: bytes, value: bytes, start: int) -> int:
    at = text.find(value[:_PROBE], start)
    for _ in range(_MOST_PROBES):
        if at < 0:
            break
        if value.startswith(text[at:]):
            return len(text) - at
        at = text.find(value[:_PROBE], at + 1)
    longest = min(_PROBE, len(value) - 1, len(text) - start)
    return next((length for length in range(longest, 0, -1) if text.endswith(value[:length])), 0)
