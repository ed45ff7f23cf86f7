"""Nodes that share templates do not remove what another one needs."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from opencomputer.server.templates.catalogue import list_templates, make_current
from opencomputer.server.templates.layers import InstalledTemplates
from opencomputer.server.templates.needs import NeedsUnreadable, declare, forget_gone, needed
from tests.unit.server.templates.test_catalogue import install


def age(path: Path, by: timedelta) -> None:
    moment = (datetime.now(UTC) - by).timestamp()
    os.utime(path, (moment, moment), follow_symlinks=False)


@pytest.fixture
def templates(tmp_path: Path) -> Path:
    """Three builds of one template, the current one for an hour."""
    folder = tmp_path / "templates"
    for hash in ("aa", "bb", "cc"):
        install(folder, "web", hash)
    make_current(folder, "web", "cc")
    age(folder / "web/current", timedelta(hours=1))
    return folder


@pytest.fixture
def nodes(tmp_path: Path) -> list[Path]:
    folders = [tmp_path / "one", tmp_path / "two"]
    for folder in folders:
        folder.mkdir()
    return folders


def hashes(templates: Path) -> set[str]:
    return {template.hash for template in list_templates(templates)}


def test_what_any_node_needs_stays(templates: Path, nodes: list[Path]) -> None:
    """Until the last of them does without."""
    one, two = (InstalledTemplates(templates, node) for node in nodes)
    assert one.prune(["aa", "bb"]) == []
    assert two.prune(["bb"]) == []
    assert one.prune([]) == ["aa"]
    assert hashes(templates) == {"bb", "cc"}
    assert two.prune([]) == ["bb"]
    assert two.prune([]) == []


def test_who_is_no_node_prunes_nothing(templates: Path, tmp_path: Path) -> None:
    """Nor is there anything to prune where no template was ever built."""
    assert InstalledTemplates(templates).prune([]) == []
    assert InstalledTemplates(tmp_path / "nothing", tmp_path).prune([]) == []
    assert hashes(templates) == {"aa", "bb", "cc"}
    assert not (tmp_path / "nothing").exists()


def test_a_node_says_all_it_needs_at_once(templates: Path, nodes: list[Path]) -> None:
    """What it says replaces what it said."""
    declare(templates, nodes[0], ["aa", "bb"])
    declare(templates, nodes[1], ["bb"])
    declare(templates, nodes[0], ["bb"])
    assert needed(templates) == {"bb": frozenset(nodes)}


def test_a_node_that_is_gone_is_forgotten_after_a_day(templates: Path, nodes: list[Path]) -> None:
    """Its disk may be away for a moment; and one that is there may be silent for as long as it likes."""
    now = datetime.now(UTC)
    for node in nodes:
        declare(templates, node, ["aa"])
    nodes[0].rmdir()
    forget_gone(templates, now + timedelta(hours=23))
    assert needed(templates) == {"aa": frozenset(nodes)}
    forget_gone(templates, now + timedelta(hours=25))
    assert needed(templates) == {"aa": frozenset(nodes[1:])}


def test_nothing_is_pruned_when_a_need_cannot_be_read(templates: Path, nodes: list[Path]) -> None:
    """It is an error, not a need for nothing."""
    (templates / ".needs").mkdir()
    (templates / ".needs/x.json").write_text("{")
    with pytest.raises(NeedsUnreadable):
        InstalledTemplates(templates, nodes[0]).prune([])
    assert hashes(templates) == {"aa", "bb", "cc"}
