"""Artefacts that are plain folders, and fail where a test says so. Quick: nothing is archived or synced."""

from __future__ import annotations

import hashlib
import itertools
import os
import shutil
import stat
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from opencomputer.server.contracts.artefacts import Change, ChangeKind, KeptLayer, KeptMemory
from opencomputer.server.domain.errors import ArtefactDamaged, ArtefactMissing
from opencomputer.server.domain.layers import LayerId, MemoryId

Step = Callable[[str, str], Awaitable[None]]


async def _nothing(_step: str, _what: str) -> None:
    return


class MemoryArtefacts:
    """Implements Artefacts. Made again with the same folder, it is the store after a restart.

    `before` is called ahead of each step with its name and the draft or id it is about (or ""), and may
    raise, wait, or do what interferes. The steps are "new_draft", "discard_draft", "keep_layer",
    "keep_memory", "kept" (the artefact is there, its id not yet told), "layer", "memory", "merge",
    "changes", "collect" and "clear_drafts".
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.before: Step = _nothing
        self.free = 1 << 40
        self.recent: set[str] = set()
        self.damaged: set[str] = set()
        self._numbers = itertools.count(1)
        for name in ("drafts", "layers", "memories"):
            (folder / name).mkdir(parents=True, exist_ok=True)

    @property
    def layer_ids(self) -> frozenset[LayerId]:
        return frozenset(LayerId(each) for each in os.listdir(self.folder / "layers"))

    @property
    def memory_ids(self) -> frozenset[MemoryId]:
        return frozenset(MemoryId(each) for each in os.listdir(self.folder / "memories"))

    @property
    def drafts(self) -> Sequence[Path]:
        return sorted((self.folder / "drafts").iterdir())

    def lose(self, artefact_id: str) -> None:
        """Have a layer or memory image disappear."""
        for kind in ("layers", "memories"):
            shutil.rmtree(self.folder / kind / artefact_id, ignore_errors=True)

    def damage(self, artefact_id: str) -> None:
        """From now on a layer or memory image is not as it was written."""
        self.damaged.add(artefact_id)

    def let_time_pass(self) -> None:
        """Nothing that was kept or asked for until now is recent any more."""
        self.recent.clear()

    async def new_draft(self) -> Path:
        await self.before("new_draft", "")
        return self.folder / "drafts" / f"{os.getpid()}-{id(self):x}-{next(self._numbers)}"

    async def discard_draft(self, draft: Path) -> None:
        await self.before("discard_draft", draft.name)
        shutil.rmtree(draft, ignore_errors=True)

    async def keep_layer(self, folder: Path) -> KeptLayer:
        await self.before("keep_layer", str(folder))
        kept_id, size = await self._keep("layers", folder)
        return KeptLayer(LayerId(kept_id), size)

    async def keep_memory(self, folder: Path) -> KeptMemory:
        await self.before("keep_memory", str(folder))
        kept_id, size = await self._keep("memories", folder)
        return KeptMemory(MemoryId(kept_id), size)

    async def layer(self, layer_id: LayerId) -> Path:
        await self.before("layer", layer_id)
        return self._fetch("layers", layer_id)

    async def memory(self, memory_id: MemoryId) -> Path:
        await self.before("memory", memory_id)
        return self._fetch("memories", memory_id)

    async def merge(self, layers: Sequence[LayerId]) -> KeptLayer:
        await self.before("merge", ",".join(layers))
        draft = await self.new_draft()
        draft.mkdir()
        for layer_id in layers:
            _apply(self._fetch("layers", layer_id), draft)
        kept_id, size = await self._keep("layers", draft)
        return KeptLayer(LayerId(kept_id), size)

    async def changes(
        self, base: Sequence[Path], before: Sequence[Path], after: Sequence[Path]
    ) -> Sequence[Change]:
        await self.before("changes", "")
        old, new = _view([*base, *before]), _view([*base, *after])
        found: list[Change] = []
        for path in sorted(old.keys() | new.keys()):
            file = new.get(path) or old[path]
            size = 0 if path not in new or file.is_dir() else file.stat().st_size
            kind = _kind(old.get(path), new.get(path))
            if kind is not None:
                found.append(Change(f"/{path}", kind, size, file.is_dir()))
        return found

    async def collect(self, layers: frozenset[LayerId], memories: frozenset[MemoryId]) -> int:
        await self.before("collect", "")
        going = [
            folder
            for kind, wanted in (("layers", frozenset[str](layers)), ("memories", frozenset[str](memories)))
            for folder in (self.folder / kind).iterdir()
            if folder.name not in wanted | self.recent
        ]
        for folder in going:
            shutil.rmtree(folder)
        return len(going)

    async def clear_drafts(self) -> None:
        await self.before("clear_drafts", "")
        for draft in self.drafts:
            shutil.rmtree(draft)

    async def free_bytes(self) -> int:
        return self.free

    async def _keep(self, kind: str, folder: Path) -> tuple[str, int]:
        kept_id, size = _identify(folder)
        _take(folder, self.folder / kind / kept_id)
        self.recent.add(kept_id)
        await self.before("kept", kept_id)
        return kept_id, size

    def _fetch(self, kind: str, artefact_id: str) -> Path:
        folder = self.folder / kind / artefact_id
        if not folder.exists():
            raise ArtefactMissing(id=artefact_id)
        if artefact_id in self.damaged:
            raise ArtefactDamaged(id=artefact_id)
        self.recent.add(artefact_id)
        return folder


def _take(folder: Path, target: Path) -> None:
    if target.exists():
        shutil.rmtree(folder)
    else:
        folder.rename(target)


def _identify(folder: Path) -> tuple[str, int]:
    digest, size = hashlib.sha256(), 0
    for path in sorted(folder.rglob("*")):
        content = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
        size += len(content)
        digest.update(f"{path.relative_to(folder)}\0{path.lstat().st_mode}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest(), size


def _apply(layer: Path, target: Path) -> None:
    """Copy a layer over what is there. Deletions are kept as deletions."""
    for path in sorted(layer.rglob("*")):
        copy = target / path.relative_to(layer)
        if path.is_dir() and not path.is_symlink():
            copy.mkdir(exist_ok=True)
            continue
        copy.unlink(missing_ok=True)
        if _is_whiteout(path):
            os.mknod(copy, stat.S_IFCHR)
        else:
            shutil.copy2(path, copy, follow_symlinks=False)


def _view(stack: Sequence[Path]) -> dict[str, Path]:
    """Which file of a stack of layers is seen at each path."""
    seen: dict[str, Path] = {}
    for layer in stack:
        for path in sorted(layer.rglob("*")):
            name = str(path.relative_to(layer))
            if _is_whiteout(path) or not path.is_dir():
                below = [each for each in seen if each == name or each.startswith(f"{name}/")]
                for each in below:
                    del seen[each]
            if not _is_whiteout(path):
                seen[name] = path
    return seen


def _is_whiteout(path: Path) -> bool:
    status = path.lstat()
    return stat.S_ISCHR(status.st_mode) and status.st_rdev == 0


def _kind(old: Path | None, new: Path | None) -> ChangeKind | None:
    if old is None or new is None:
        return ChangeKind.ADDED if old is None else ChangeKind.DELETED
    same = stat.S_IFMT(old.lstat().st_mode) == stat.S_IFMT(new.lstat().st_mode) and (
        not old.is_file() or old.read_bytes() == new.read_bytes()
    )
    return None if same else ChangeKind.CHANGED
