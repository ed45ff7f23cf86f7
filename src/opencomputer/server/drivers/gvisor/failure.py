"""Why runsc failed. It says so in text only, so this is the one place that reads such text. Pure.

Matching is narrow on purpose: a text we do not know is `OTHER`, which nobody acts upon. If a new build
words a failure differently we lose a retry and a clear message, never correctness.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

_MAX_MESSAGE = 600


class FailureKind(StrEnum):
    DELETED_FILE = "deleted_file"
    """A file is open but deleted, which this build cannot save. It usually passes within moments."""
    OPEN_CONNECTION = "open_connection"
    GONE = "gone"
    """runsc does not know the machine or cannot reach it: it has ended."""
    NO_SPACE = "no_space"
    """The host has no room for what should be written."""
    BAD_IMAGE = "bad_image"
    """The memory image is incomplete, damaged or from another build."""
    OTHER = "other"


@dataclass(frozen=True)
class Failure:
    kind: FailureKind
    message: str
    """What runsc said, on one line, without the call stacks it likes to add."""
    path: str | None = None
    """The file in question, for DELETED_FILE."""


_PATTERNS = (
    (FailureKind.DELETED_FILE, re.compile(r"deleted (?:and invalidated )?(?:dentr|file)")),
    (FailureKind.NO_SPACE, re.compile(r"no space left on device", re.IGNORECASE)),
    (FailureKind.OPEN_CONNECTION, re.compile(r"(?:endpoint|connection).{0,80}(?:cannot|can't) be saved")),
    (
        FailureKind.GONE,
        re.compile(r"loading container: file does not exist|container is not running|connection refused"),
    ),
    (
        FailureKind.BAD_IMAGE,
        re.compile(r"opening state file|statefile|bad header|checksum mismatch|failed to load kernel"),
    ),
)
_SAVED_FILE = re.compile(r'dentry\("([^"]*)"\)')
_STACK = re.compile(r"\n(?:goroutine \d+ |panic\()")


def classify(output: str) -> Failure:
    """Decide from everything a failed runsc printed."""
    said = _STACK.split(output, maxsplit=1)[0]
    message = " ".join(said.split())[:_MAX_MESSAGE] or "runsc said nothing"
    for kind, pattern in _PATTERNS:
        if pattern.search(said):
            path = _SAVED_FILE.search(said) if kind is FailureKind.DELETED_FILE else None
            return Failure(kind, message, f"/{path[1].lstrip('/')}" if path else None)
    return Failure(FailureKind.OTHER, message)
