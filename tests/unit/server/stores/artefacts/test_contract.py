"""What every implementation of Artefacts does, the one for tests included."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest

from opencomputer.server.contracts.artefacts import Artefacts, Change, ChangeKind, KeptLayer
from opencomputer.server.domain.errors import ArtefactMissing
from opencomputer.server.domain.layers import LayerId, MemoryId
from opencomputer.server.stores.artefacts.store import GRACE
from tests.support.memory.artefacts import MemoryArtefacts
from tests.unit.server.stores.artefacts.conftest import Bench

pytestmark = pytest.mark.anyio


@dataclass(frozen=True)
class Candidate:
    artefacts: Artefacts
    let_time_pass: Callable[[], None]
    reopen: Callable[[], Artefacts]


@pytest.fixture(params=["blobs", "memory"])
def candidate(request: pytest.FixtureRequest, bench: Bench, tmp_path: Path) -> Candidate:
    if request.param == "memory":
        artefacts = MemoryArtefacts(tmp_path / "memory")
        return Candidate(artefacts, artefacts.let_time_pass, lambda: MemoryArtefacts(tmp_path / "memory"))

    def pass_time() -> None:
        bench.clock.time += GRACE + timedelta(seconds=1)

    return Candidate(bench.open(), pass_time, bench.open)


@pytest.fixture
def artefacts(candidate: Candidate) -> Artefacts:
    return candidate.artefacts


async def saved(artefacts: Artefacts, files: Mapping[str, str | None]) -> Path:
    """A folder as drivers save it. A file without content is a deletion."""
    folder = await artefacts.new_draft() / "saved"
    folder.mkdir(parents=True)
    for name, content in files.items():
        if content is None:
            os.mknod(folder / name, stat.S_IFCHR, 0)
        else:
            (folder / name).write_text(content)
        os.utime(folder / name, (1, 1))
    return folder


async def layer(artefacts: Artefacts, **files: str | None) -> KeptLayer:
    return await artefacts.keep_layer(await saved(artefacts, files))


async def test_what_is_kept_comes_back(artefacts: Artefacts) -> None:
    kept = await layer(artefacts, a="1")
    image = await artefacts.keep_memory(await saved(artefacts, {"pages": "2"}))
    assert (await artefacts.layer(kept.id) / "a").read_text() == "1"
    assert (await artefacts.memory(image.id) / "pages").read_text() == "2"


async def test_the_folder_is_taken(artefacts: Artefacts) -> None:
    drafts = [await saved(artefacts, {"a": "1"}) for _ in range(3)]
    for draft in drafts[:2]:
        await artefacts.keep_layer(draft)
    await artefacts.keep_memory(drafts[2])
    assert not any(draft.exists() for draft in drafts)


async def test_equal_content_has_one_identity(artefacts: Artefacts) -> None:
    assert await layer(artefacts, a="1", b="2") == await layer(artefacts, b="2", a="1")
    assert (await layer(artefacts, a="1")).id != (await layer(artefacts, a="2")).id


async def test_a_new_draft_is_not_there_yet_and_can_be_discarded(artefacts: Artefacts) -> None:
    draft = await artefacts.new_draft()
    assert not draft.exists()
    draft.mkdir()
    await artefacts.discard_draft(draft)
    await artefacts.discard_draft(draft)
    assert not draft.exists()


async def test_drafts_end_with_the_process(candidate: Candidate) -> None:
    draft = await saved(candidate.artefacts, {"a": "1"})
    await candidate.reopen().clear_drafts()
    assert not draft.exists()


async def test_what_is_kept_outlives_the_process(candidate: Candidate) -> None:
    kept = await layer(candidate.artefacts, a="1")
    again = candidate.reopen()
    await again.clear_drafts()
    assert (await again.layer(kept.id) / "a").read_text() == "1"


async def test_what_was_never_kept_is_missing(artefacts: Artefacts) -> None:
    with pytest.raises(ArtefactMissing):
        await artefacts.layer(LayerId("0" * 64))
    with pytest.raises(ArtefactMissing):
        await artefacts.memory(MemoryId("0" * 64))


async def test_merging_applies_the_upper_layers_and_keeps_deletions(artefacts: Artefacts) -> None:
    lower = await layer(artefacts, a="1", b="1", c="1")
    upper = await layer(artefacts, a="2", b=None, d=None)
    folder = await artefacts.layer((await artefacts.merge([lower.id, upper.id])).id)
    assert sorted(path.name for path in folder.iterdir()) == ["a", "b", "c", "d"]
    assert (folder / "a").read_text() == "2"
    assert all(stat.S_ISCHR((folder / name).lstat().st_mode) for name in "bd")
    assert (await artefacts.layer(lower.id) / "b").read_text() == "1"


async def test_changes_are_found_between_stacks(artefacts: Artefacts) -> None:
    base, first, second = [
        await artefacts.layer(kept.id)
        for kept in (
            await layer(artefacts, a="1", b="1"),
            await layer(artefacts, c="1"),
            await layer(artefacts, a="22", b=None, d="1"),
        )
    ]
    assert list(await artefacts.changes([base], [first], [first, second])) == [
        Change("/a", ChangeKind.CHANGED, 2),
        Change("/b", ChangeKind.DELETED, 0),
        Change("/d", ChangeKind.ADDED, 1),
    ]


async def test_only_what_nobody_wants_any_more_is_collected(candidate: Candidate) -> None:
    artefacts = candidate.artefacts
    wanted, unwanted = await layer(artefacts, a="1"), await layer(artefacts, a="2")
    assert await artefacts.collect(frozenset({wanted.id}), frozenset()) == 0
    candidate.let_time_pass()
    assert await artefacts.collect(frozenset({wanted.id}), frozenset()) == 1
    assert (await artefacts.layer(wanted.id) / "a").exists()
    with pytest.raises(ArtefactMissing):
        await artefacts.layer(unwanted.id)


async def test_there_is_room(artefacts: Artefacts) -> None:
    assert await artefacts.free_bytes() > 0
