"""How the same request is told from another one (agent-sessions.md section 2.7)."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any

from opencomputer.server.domain.errors import InvalidInput

_KEY = re.compile(r"[\x20-\x7e]{1,255}")


def checked_key(key: str | None, field: str) -> str | None:
    """A key as it may be. Raises InvalidInput naming `field`."""
    if key is not None and not _KEY.fullmatch(key):
        raise InvalidInput(f"{field} must be 1 to 255 printable ASCII characters", field=field)
    return key


def request_hash(*content: Any) -> str:
    """The same for requests that mean the same: the order of keys and white space do not count."""
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(canonical.encode()).hexdigest()
