"""What a signed URL of a file permits, and the signature that says so (behaviour section 14)."""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from opencomputer.server.domain.errors import InvalidInput
from opencomputer.wire.ids import SandboxId

MAX_PATH_BYTES = 4096
_DEFAULT_LIFE = timedelta(hours=1)
_LONGEST_LIFE = timedelta(days=1)
_DOMAIN = "opencomputer file URL 1"


class FileOperation(StrEnum):
    DOWNLOAD = "download"
    UPLOAD = "upload"


@dataclass(frozen=True)
class FilePermit:
    """One operation on one file of one sandbox, until `expires` (Unix seconds, as the URL spells them).

    `epoch` is the sandbox's: another one there invalidates all permits given before.
    """

    sandbox_id: SandboxId
    epoch: str | None
    operation: FileOperation
    path: str
    expires: str

    def signature(self, secret: bytes) -> str:
        # The path comes last: it is the only part that may contain a line's end.
        parts = (_DOMAIN, self.sandbox_id, self.epoch or "", self.operation, self.expires, self.path)
        return hmac.new(secret, "\n".join(parts).encode(), hashlib.sha256).hexdigest()

    def is_signed(self, signature: str, secret: bytes) -> bool:
        """Compares in constant time."""
        return hmac.compare_digest(signature.encode(errors="replace"), self.signature(secret).encode())


def life(asked_seconds: int | None) -> timedelta:
    """How long a URL lives: an hour unless a positive number is asked for, and never more than a day."""
    if asked_seconds is None or asked_seconds <= 0:
        return _DEFAULT_LIFE
    return timedelta(seconds=min(asked_seconds, int(_LONGEST_LIFE.total_seconds())))


def check_path(path: str) -> None:
    """Raise InvalidInput for what cannot name a file in any sandbox."""
    if not path or "\0" in path:
        raise InvalidInput("path is required and must not contain NUL", field="path")
    if len(path.encode()) > MAX_PATH_BYTES:
        raise InvalidInput(f"path must be at most {MAX_PATH_BYTES} bytes", field="path")
