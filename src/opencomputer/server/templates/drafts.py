"""Making a template so that it is either not there or complete: a draft, filled and then renamed."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from opencomputer.server.host.locks import exclusive
from opencomputer.server.host.trees import remove_tree
from opencomputer.server.templates.catalogue import (
    DESCRIPTION_FILE,
    HALF_BUILT_PREFIX,
    LOCK_FILE,
    Template,
    describe,
)
from opencomputer.server.templates.commands import Progress


@dataclass(frozen=True)
class Workshop:
    """The right to make templates of one name. Programs of a build keep the descriptor `lock` open."""

    home: Path
    lock: int

    @contextmanager
    def draft(self, wanted: str) -> Generator[Path]:
        """An empty folder that is gone at the end unless it was published."""
        folder = self.home / f"{HALF_BUILT_PREFIX}{wanted}"
        folder.mkdir()
        try:
            yield folder
        finally:
            remove_tree(folder)

    def publish(self, draft: Path, template: Template) -> None:
        """Let a draft become the template of this description, in place of an earlier build of its hash."""
        (draft / DESCRIPTION_FILE).write_text(describe(template))
        target = self.home / template.hash
        if target.exists():
            target.rename(self.home / f"{HALF_BUILT_PREFIX}{template.hash}-replaced")
        draft.rename(target)
        _remove_half_built(self.home)


@contextmanager
def workshop(templates_dir: Path, name: str, progress: Progress) -> Generator[Workshop]:
    """Wait until nobody else makes templates, and begin with nothing half-built."""
    home = templates_dir / name
    home.mkdir(parents=True, exist_ok=True)
    with exclusive(templates_dir / LOCK_FILE, lambda: progress("> waiting for another build to end")) as lock:
        _remove_half_built(home)
        yield Workshop(home, lock)


@dataclass(frozen=True)
class Extent:
    """What a tree takes: space on disk (a file with several names counts once), names, levels of folders."""

    size_bytes: int
    entries: int
    depth: int


def measure(folder: Path) -> Extent:
    """Without recursion, however deep the tree is. What vanishes meanwhile does not count."""
    seen: set[int] = set()
    size = entries = deepest = 0
    waiting = [(os.fspath(folder), 1)]
    while waiting:
        here, depth = waiting.pop()
        deepest = max(deepest, depth)
        for entry in _entries(here):
            entries += 1
            try:
                status = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue
            if entry.is_dir(follow_symlinks=False):
                waiting.append((entry.path, depth + 1))
            elif status.st_nlink > 1 and status.st_ino in seen:
                continue
            elif status.st_nlink > 1:
                seen.add(status.st_ino)
            size += status.st_blocks * 512
    return Extent(size, entries, deepest)


def _entries(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as found:
            return list(found)
    except FileNotFoundError:
        return []


def _remove_half_built(home: Path) -> None:
    for path in home.glob(f"{HALF_BUILT_PREFIX}*"):
        remove_tree(path)
