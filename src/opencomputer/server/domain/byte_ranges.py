"""Parts of files: what a client asks for, and what that is of a file of a known size (RFC 9110)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from opencomputer.server.domain.errors import RangeNotSatisfiable

# One range. More than a hundred digits are no number that anybody means.
_ONE_RANGE = re.compile(r"bytes\s*=\s*([0-9]{0,100})\s*-\s*([0-9]{0,100})\s*", re.IGNORECASE | re.ASCII)
# No file has a byte there.
_END = (1 << 62) - 1


@dataclass(frozen=True)
class Span:
    """`count` bytes, at least one, beginning at `start`."""

    start: int
    count: int


@dataclass(frozen=True)
class ByteRange:
    """From the byte `first` to the byte `last`, which belongs to it.

    Without `last`, to the end. Without `first`, as many bytes at the end as `last` says.
    """

    first: int | None
    last: int | None

    def within(self, size: int) -> Span:
        """Raises RangeNotSatisfiable where it has no byte of a file of this size."""
        if self.first is None:
            start, end = max(0, size - (self.last or 0)), size
        else:
            start, end = self.first, size if self.last is None else min(size, self.last + 1)
        if start >= end:
            raise RangeNotSatisfiable(f"the file has {size} bytes", size=size)
        return Span(start, end - start)


def parse_range(header: str | None) -> ByteRange | None:
    """The part that a `Range` header asks for. None: all of it, as for several ranges and for nonsense."""
    found = _ONE_RANGE.fullmatch(header or "")
    if found is None or found[1] == found[2] == "":
        return None
    first, last = (min(int(digits), _END) if digits else None for digits in found.groups())
    if first is not None and last is not None and last < first:
        return None
    return ByteRange(first, last)
