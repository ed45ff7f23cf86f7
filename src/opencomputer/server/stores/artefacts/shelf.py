"""Unpacked copies: one folder for each, complete or not there, with the time of its last use.

Nothing here waits for the disk. What an end of the host takes from a copy, the blob store still has.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from opencomputer.server.host.trees import remove_tree
from opencomputer.server.stores.artefacts.durable import Step

FILES = "files"


class Drafts:
    """Paths for what is not complete yet."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def new(self) -> Path:
        return self._folder / secrets.token_hex(8)

    def make(self) -> Path:
        draft = self.new()
        draft.mkdir(mode=0o700)
        return draft

    def clear(self) -> None:
        for draft in self._folder.iterdir():
            remove_tree(draft)


class Shelf:
    """A folder `<id>` per artefact: its content in `files`, its last use in its own time of change.

    The content's own times belong to the content, so they cannot tell.
    """

    def __init__(self, folder: Path, drafts: Drafts, step: Step) -> None:
        self._folder = folder
        self._drafts = drafts
        self._step = step

    def path(self, artefact_id: str) -> Path:
        return self._folder / artefact_id / FILES

    def ids(self) -> Sequence[str]:
        return sorted(os.listdir(self._folder))

    def put(self, artefact_id: str, draft: Path, at: datetime) -> None:
        """Make `draft`, a folder with a folder `FILES`, the copy of an artefact that has none."""
        self._step("shelve")
        os.utime(draft, (at.timestamp(), at.timestamp()))
        draft.rename(self._folder / artefact_id)

    def touch(self, artefact_id: str, at: datetime) -> bool:
        """Note a use. False: there is no copy."""
        try:
            os.utime(self._folder / artefact_id, (at.timestamp(), at.timestamp()))
        except FileNotFoundError:
            return False
        return True

    def last_use(self, artefact_id: str) -> datetime | None:
        try:
            seconds = os.stat(self._folder / artefact_id).st_mtime
        except FileNotFoundError:
            return None
        return datetime.fromtimestamp(seconds, UTC)

    def remove(self, artefact_id: str) -> None:
        """It is gone at once, and its room a little later."""
        draft = self._drafts.new()
        try:
            (self._folder / artefact_id).rename(draft)
        except FileNotFoundError:
            return
        self._step("unshelved")
        remove_tree(draft)
