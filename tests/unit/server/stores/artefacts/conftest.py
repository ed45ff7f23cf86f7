from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from obstore.store import ObjectStore

from opencomputer.server.stores.artefacts.store import BlobArtefacts

Fill = Callable[[Path], None]


class HandClock:
    """Time passes when a test says so. It starts now, because files know the real time."""

    def __init__(self) -> None:
        self.time = datetime.now(UTC)

    def now(self) -> datetime:
        return self.time

    def monotonic(self) -> float:
        return self.time.timestamp()

    async def sleep(self, seconds: float) -> None:
        self.time += timedelta(seconds=seconds)


class Killed(BaseException):
    """Stands for the end of the process: who cleans up after exceptions does not notice it."""


@dataclass
class Interruptions:
    """Ends the process at the `at`-th step, and notes which steps there are."""

    at: int | None = None
    steps: list[str] = field(default_factory=list[str])

    def __call__(self, step: str) -> None:
        self.steps.append(step)
        if len(self.steps) == self.at:
            raise Killed(step)


@dataclass
class Bench:
    """A folder of artefacts, which outlives the objects that work on it."""

    folder: Path
    clock: HandClock
    store: ObjectStore | None = None

    def open(self, interruptions: Interruptions | None = None, boot_id: str = "this boot") -> BlobArtefacts:
        return BlobArtefacts(
            self.folder,
            self.clock,
            store=self.store,
            step=interruptions or Interruptions(),
            boot_id=boot_id,
        )

    @property
    def blob_files(self) -> Sequence[Path]:
        return sorted(path for path in (self.folder / "blobs").rglob("*") if path.is_file())

    @property
    def unpacked(self) -> Sequence[str]:
        return sorted(os.listdir(self.folder / "layers") + os.listdir(self.folder / "memories"))

    @property
    def drafts(self) -> Sequence[str]:
        return os.listdir(self.folder / "drafts")


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    if os.geteuid() != 0:
        pytest.skip("layers have owners, devices and trusted attributes: this needs root")
    return Bench(tmp_path / "artefacts", HandClock())


async def draft_with(artefacts: BlobArtefacts, fill: Fill) -> Path:
    """A saved folder, as a driver leaves it in a draft."""
    folder = await artefacts.new_draft() / "saved"
    folder.mkdir(parents=True, mode=0o755)
    fill(folder)
    return folder


def text(**files: str) -> Fill:
    """Files by name, all of the same time."""

    def fill(folder: Path) -> None:
        for name, content in files.items():
            (folder / name).write_text(content)
            os.utime(folder / name, (1, 1))

    return fill


def memory(size_bytes: int = 3 << 20) -> Fill:
    """A memory image with a folder, a hole, and bytes that are not all alike."""

    def fill(folder: Path) -> None:
        (folder / "kernel").mkdir()
        (folder / "kernel" / "state").write_text("registers")
        with open(folder / "pages", "wb") as pages:
            pages.write(bytes(range(256)) * (size_bytes // 256))
            pages.truncate(size_bytes + (20 << 20))

    return fill


def _flip(blob: Path) -> None:
    content = bytearray(blob.read_bytes())
    content[len(content) // 2] ^= 1
    _overwrite(blob, bytes(content))


def _lengthen(blob: Path) -> None:
    _overwrite(blob, blob.read_bytes() + bytes(512))


def _overwrite(blob: Path, content: bytes) -> None:
    """In place: other names of the file see it too."""
    with open(blob, "r+b") as file:
        file.write(content)


HARMS: Mapping[str, Fill] = {
    "truncated": lambda blob: os.truncate(blob, blob.stat().st_size // 2),
    "empty": lambda blob: os.truncate(blob, 0),
    "a flipped bit": _flip,
    "longer": _lengthen,
}
"""What can happen to a file on a disk."""
