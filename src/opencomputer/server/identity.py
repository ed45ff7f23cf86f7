"""What a node keeps of itself in its data folder: its tag, its secrets, its lock."""

from __future__ import annotations

import fcntl
import json
import os
import secrets
from dataclasses import dataclass, field
from pathlib import Path

_NEW = {"tag": 3, "tokenSecret": 32, "fileUrlSecret": 32, "clientTokenSecret": 32}
"""Everything that is chosen at random once, and in how many bytes."""


LOCK = "lock"
UNFINISHED = "restore-unfinished.json"
"""In a data folder that a backup is being restored into, and was not yet as a whole."""


class DataFolderBusy(Exception):
    """Another server uses this data folder."""


class DataFolderUnfinished(Exception):
    """A backup was not restored into this data folder as a whole."""


@dataclass(frozen=True)
class NodeIdentity:
    """`tag` is 6 hex digits and in the name of everything host-wide that belongs to this node.

    Each secret signs one kind of thing only.
    """

    tag: str
    token_secret: bytes = field(repr=False)
    file_url_secret: bytes = field(repr=False)
    client_token_secret: bytes = field(repr=False)


class DataFolder:
    """The data folder of one node, locked while this object is open."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock: int | None = None

    @property
    def database(self) -> Path:
        return self.path / "opencomputer.db"

    @property
    def golden(self) -> Path:
        return self.path / "golden"

    @property
    def keyring(self) -> Path:
        """The keys that secrets are encrypted with, readable by its owner only."""
        return self.path / "keyring.json"

    @property
    def egress_authority(self) -> Path:
        """The certificate authority of the egress proxy, readable by its owner only."""
        return self.path / "egress-authority.pem"

    @property
    def local_key(self) -> Path:
        """The key that `oc` on this machine uses, readable by its owner only."""
        return self.path / "local-key.json"

    def open(self) -> NodeIdentity:
        """Create what is missing, lock the folder, and say who this node is.

        Raises DataFolderBusy, DataFolderUnfinished.
        """
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        if (self.path / UNFINISHED).exists():
            raise DataFolderUnfinished(
                f"a backup was being restored into {self.path}, and that did not come to its end: "
                "run `oc backup restore` again"
            )
        lock = os.open(self.path / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            raise DataFolderBusy(f"another server uses {self.path}") from None
        self._lock = lock
        stored = self._stored_identity()
        return NodeIdentity(
            stored["tag"],
            bytes.fromhex(stored["tokenSecret"]),
            bytes.fromhex(stored["fileUrlSecret"]),
            bytes.fromhex(stored["clientTokenSecret"]),
        )

    def close(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _stored_identity(self) -> dict[str, str]:
        file = self.path / "node.json"
        stored: dict[str, str] = json.loads(file.read_text()) if file.exists() else {}
        missing = _NEW.keys() - stored.keys()
        if missing:
            # What earlier versions did not know is added to what they made.
            stored |= {name: secrets.token_hex(_NEW[name]) for name in sorted(missing)}
            write_private(file, stored)
        return stored


def new_tag() -> str:
    """A name for a node that nobody else on its host has."""
    return secrets.token_hex(_NEW["tag"])


def write_private(file: Path, content: dict[str, str]) -> None:
    """Write JSON that only its owner may read, whole or not at all."""
    file.parent.mkdir(parents=True, exist_ok=True)
    draft = file.with_name(f".{file.name}.{os.getpid()}")
    with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "w") as stream:
        json.dump(content, stream, indent=2)
        stream.flush()
        os.fsync(stream.fileno())
    draft.replace(file)
