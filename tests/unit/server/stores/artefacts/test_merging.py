"""Merging layers, against what the kernel shows of them.

Trees and deeds are random, from fixed seeds; the layers are made through real overlay mounts, ten deep.
"""

from __future__ import annotations

import os
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from opencomputer.server.domain.layers import ChangeKind
from opencomputer.server.stores.artefacts.differences import differences
from opencomputer.server.stores.artefacts.merging import merge_layers
from opencomputer.server.stores.artefacts.overlay import OPAQUE, REDIRECT
from tests.unit.server.stores.artefacts.conftest import Bench, draft_with, text
from tests.unit.server.stores.artefacts.overlays import (
    Seen,
    View,
    fill,
    look,
    make_layer,
    view_of,
    with_mounts,
)

_DEPTH = 10
_DEEDS = 8


@dataclass(frozen=True)
class Grown:
    """A template, and the layers of a machine that was saved ten times."""

    folder: Path
    chance: random.Random
    base: Sequence[Path]
    layers: Sequence[Path]

    def see(self, *layers: Path, base: Sequence[Path] | None = None) -> View:
        return look([*(self.base if base is None else base), *layers], self.folder / "looking")


@pytest.fixture(scope="module", params=range(6))
def grown(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Grown:
    if os.geteuid() != 0:
        pytest.skip("overlays are mounted: this needs root")
    folder = tmp_path_factory.mktemp("grown")
    return with_mounts(lambda: _grow(folder, random.Random(request.param)))


def _grow(folder: Path, chance: random.Random) -> Grown:
    base = [folder / "base0", folder / "base1"]
    for each in base:
        fill(each, chance)
    layers: list[Path] = []
    for number in range(_DEPTH):
        layer = folder / f"layer{number}"
        make_layer([*base, *layers], layer, folder / "making", chance, _DEEDS)
        layers.append(layer)
    return Grown(folder, chance, base, layers)


def test_a_merged_layer_looks_as_its_layers_do(grown: Grown, tmp_path: Path) -> None:
    """All of it, and parts of it with the others still beside them, metadata included."""

    def work() -> None:
        whole, lower, upper = (tmp_path / name for name in ("whole", "lower", "upper"))
        cut = grown.chance.randrange(1, _DEPTH)
        merge_layers(grown.layers, whole)
        merge_layers(grown.layers[:cut], lower)
        merge_layers(grown.layers[cut:], upper)
        expected = grown.see(*grown.layers)
        assert grown.see(whole) == expected
        assert grown.see(lower, *grown.layers[cut:]) == expected
        assert grown.see(*grown.layers[:cut], upper) == expected
        assert grown.see(lower, upper) == expected

    with_mounts(work)


def test_a_merged_layer_has_the_effect_of_its_layers_over_any_base(grown: Grown, tmp_path: Path) -> None:
    """Deletions and opaque folders are still in it, also for what this template does not have."""

    def work() -> None:
        other = tmp_path / "other"
        fill(other, grown.chance)
        merge_layers(grown.layers, tmp_path / "whole")
        seen = grown.see(tmp_path / "whole", base=[other])
        assert seen == grown.see(*grown.layers, base=[other])

    with_mounts(work)


def test_differences_are_what_one_finds_by_comparing_everything(grown: Grown, tmp_path: Path) -> None:
    """Forwards, backwards, and between stacks that have no layer in common."""

    def work() -> None:
        whole, cut = tmp_path / "whole", grown.chance.randrange(_DEPTH)
        merge_layers(grown.layers, whole)
        stacks: Sequence[tuple[Sequence[Path], Sequence[Path]]] = (
            (grown.layers[:cut], grown.layers),
            (grown.layers, grown.layers[:cut]),
            ([], [whole]),
            (grown.layers, [whole]),
        )
        for before, after in stacks:
            found = differences(grown.base, before, after)
            assert {
                each.path: (each.kind, each.size_bytes, each.is_directory) for each in found
            } == _expected(grown.see(*before), grown.see(*after))

    with_mounts(work)


Difference = tuple[ChangeKind, int, bool]


def _expected(before: View, after: View) -> Mapping[str, Difference]:
    found: dict[str, Difference] = {}
    for path in before.keys() | after.keys():
        old, new = before.get(path), after.get(path)
        if new is None:
            found[path] = (ChangeKind.DELETED, 0, before[path].is_directory)
        elif old is None:
            found[path] = (ChangeKind.ADDED, new.size_bytes, new.is_directory)
        elif _compared(old) != _compared(new):
            found[path] = (ChangeKind.CHANGED, new.size_bytes, new.is_directory)
    return found


def _compared(seen: Seen) -> object:
    return seen.mode, seen.owner, seen.device, seen.size_bytes, seen.content


def test_random_layers_have_what_makes_merging_hard(grown: Grown) -> None:
    """Otherwise the tests above would show little. Two kinds out of four at least, in each of the stacks."""
    marks = {mark for layer in grown.layers for mark in _marks(layer)}
    assert {"deleted", "opaque"} <= marks
    assert marks & {"renamed beside", "renamed elsewhere"}


def _marks(layer: Path) -> set[str]:
    marks: set[str] = set()
    for seen in view_of(layer).values():
        attributes = dict(seen.attributes)
        redirect = attributes.get(REDIRECT)
        if seen.mode == 0o20000 and seen.device == 0:
            marks.add("deleted")
        if attributes.get(OPAQUE) == b"y":
            marks.add("opaque")
        if redirect is not None:
            marks.add("renamed elsewhere" if redirect.startswith(b"/") else "renamed beside")
    return marks


@pytest.mark.anyio
async def test_a_merged_layer_is_kept_and_shares_its_files(bench: Bench) -> None:
    artefacts = bench.open()

    first, second = [
        await artefacts.keep_layer(await draft_with(artefacts, text(**{name: name}))) for name in "ab"
    ]
    merged = await artefacts.merge([first.id, second.id])
    inodes = [
        (await artefacts.layer(kept.id) / name).stat().st_ino for kept, name in ((first, "a"), (second, "b"))
    ]
    folder = await artefacts.layer(merged.id)
    assert [(folder / name).stat().st_ino for name in "ab"] == inodes
    assert sorted(bench.unpacked) == sorted([first.id, second.id, merged.id])


@pytest.mark.anyio
async def test_merging_again_makes_the_same_layer(bench: Bench) -> None:
    artefacts = bench.open()
    layers = [
        (await artefacts.keep_layer(await draft_with(artefacts, text(**{name: name})))).id for name in "abc"
    ]
    assert await artefacts.merge(layers) == await artefacts.merge(layers)
