"""What becomes of a request's body on its way: which of three ways it goes, and how long it is then."""

from __future__ import annotations

import re
from enum import Enum

import h11

from opencomputer.server.network.proxy.heads import Framing, header
from opencomputer.server.network.proxy.tokens import Substitution

MOST_HELD = 256 * 1024
"""Bodies up to this are put together before they are sent, and so have an exact length also afterwards."""

_OPAQUE = re.compile(
    rb"(image|audio|video|font)/.*"
    rb"|application/(octet-stream|zip|gzip|x-gzip|zstd|x-tar|x-xz|x-bzip2|x-7z-compressed|pdf|wasm|java-archive"
    rb"|vnd\.docker\..*|vnd\.oci\.image\.layer\..*)"
)


class Way(Enum):
    """How a body goes."""

    UNTOUCHED = "untouched"
    """As it comes, with the length it was said to have."""
    HELD = "held"
    """Put together, then sent with its new length."""
    STREAMED = "streamed"
    """Piece by piece and in chunks, for its length is only known at its end."""


def way_of(request: h11.Request, substitution: Substitution) -> Way:
    """How the body of a request goes.

    A compressed body holds no token that could be seen. A long one that is no text by its type keeps its
    length, because those who take long files mostly insist on knowing it.
    """
    chunked = bool(header(request, b"transfer-encoding"))
    length = int(header(request, b"content-length") or b"0")
    encoding = header(request, b"content-encoding").strip().lower()
    if not substitution.possible or encoding not in (b"", b"identity") or not (chunked or length):
        return Way.UNTOUCHED
    if chunked:
        return Way.STREAMED
    if length <= MOST_HELD:
        return Way.HELD
    kind = header(request, b"content-type").split(b";", 1)[0].strip().lower()
    return Way.UNTOUCHED if _OPAQUE.fullmatch(kind) else Way.STREAMED


def framing_of(request: h11.Request, way: Way, held: bytes) -> Framing:
    if way is Way.HELD:
        return Framing([(b"Content-Length", str(len(held)).encode())], expect=False)
    if way is Way.STREAMED or header(request, b"transfer-encoding"):
        return Framing([(b"Transfer-Encoding", b"chunked")])
    length = header(request, b"content-length")
    return Framing([(b"Content-Length", length)] if length else [])
