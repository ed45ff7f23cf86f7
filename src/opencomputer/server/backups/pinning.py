"""Holding on to files of a running node: a second name each, which no sweep of the node knows of."""

from __future__ import annotations

import os
import secrets
import sqlite3
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from opencomputer.server.backups import keys
from opencomputer.server.backups.errors import BackupError
from opencomputer.server.backups.manifest import DATABASE
from opencomputer.server.host.locks import Held, exclusive_now
from opencomputer.server.host.trees import remove_tree
from opencomputer.server.stores.sql.copies import CopyFacts, copy_database, facts_of, problems_of

_PINS = "backups-in-the-making"
_TRIES = 5
_BLOBS = Path("artefacts/blobs")
_STATES = Path("brain-states/states")


@dataclass(frozen=True)
class Pinned:
    """One moment of a node, in a folder that nobody changes. `files` by their path in the data folder."""

    database: Path
    facts: CopyFacts
    files: Mapping[str, Path]
    private: Mapping[str, bytes]
    missing: tuple[str, ...]
    folder: Path


@contextmanager
def pinned(data: Path) -> Generator[Pinned]:
    """Raises BackupError. Nothing is left in the data folder afterwards, and what a killed one left goes."""
    if not (data / DATABASE).is_file():
        raise BackupError(f"{data} is no node's data folder; name it with --data")
    pins = data / _PINS
    pins.mkdir(mode=0o700, exist_ok=True)
    try:
        with exclusive_now(pins / "lock"):
            for left in pins.iterdir():
                if left.is_dir():
                    remove_tree(left)
            folder = pins / secrets.token_hex(4)
            folder.mkdir(mode=0o700)
            try:
                yield _pin(data, folder)
            finally:
                remove_tree(folder)
    except Held:
        raise BackupError(f"another backup of {data} is being made") from None


def _pin(data: Path, folder: Path) -> Pinned:
    """The database first, then what it refers to. What went in between is looked for in a newer database."""
    links = _Links(data, folder)
    for _ in range(_TRIES - 1):
        private = keys.collect(data)
        moment = _look(links)
        if not moment.missing and moment.private == private:
            return moment
    return _look(links)


def _look(links: _Links) -> Pinned:
    # States of brains have no rows of their own: those from before and after are all that it may mean.
    links.add_states()
    copy = links.folder / DATABASE
    copy.unlink(missing_ok=True)
    try:
        copy_database(links.data / DATABASE, copy)
    except sqlite3.Error as error:
        raise BackupError(f"{links.data / DATABASE} cannot be copied: {error}") from error
    if problems := problems_of(copy):
        raise BackupError(f"{links.data / DATABASE} is damaged: {'; '.join(problems[:3])}")
    facts = facts_of(copy)
    missing = links.add_artefacts(facts)
    links.add_states()
    return Pinned(copy, facts, links.wanted(facts), keys.collect(links.data), missing, links.folder)


class _Links:
    def __init__(self, data: Path, folder: Path) -> None:
        self.data = data
        self.folder = folder
        self._files: dict[str, Path] = {}

    def wanted(self, facts: CopyFacts) -> Mapping[str, Path]:
        """Without what only an earlier look wanted."""
        artefacts = {*facts.layers, *facts.memories}
        return {
            path: link
            for path, link in self._files.items()
            if not path.startswith(f"{_BLOBS}/") or _artefact(path) in artefacts
        }

    def add_artefacts(self, facts: CopyFacts) -> tuple[str, ...]:
        """Returns those that are not there."""
        layers = [_BLOBS / "layers" / f"{layer}.tar" for layer in sorted(facts.layers)]
        memories = [_BLOBS / "memories" / memory for memory in sorted(facts.memories)]
        missing = [path for path in layers if not self._add(path)]
        missing += [path for path in memories if not self._add_memory(path)]
        return tuple(map(str, missing))

    def _add_memory(self, path: Path) -> bool:
        names = _names(self.data / path)
        added = [self._add(path / name) for name in names]
        return "manifest.json" in names and all(added)

    def add_states(self) -> None:
        for session in _names(self.data / _STATES):
            for turn in _names(self.data / _STATES / session):
                if "#" not in turn:  # a draft of the blob store's
                    self._add(_STATES / session / turn)

    def _add(self, path: Path) -> bool:
        if str(path) in self._files:
            return True
        link = self.folder / f"{len(self._files):06}"
        try:
            os.link(self.data / path, link)
        except (FileNotFoundError, NotADirectoryError):
            return False
        self._files[str(path)] = link
        return True


def _artefact(path: str) -> str:
    """The layer or memory image that a blob belongs to."""
    return path.removeprefix(f"{_BLOBS}/").split("/")[1].removesuffix(".tar")


def _names(folder: Path) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return []
