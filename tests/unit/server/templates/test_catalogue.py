"""The catalogue knows complete templates only, and which of them is current."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from opencomputer.server.contracts.templates import TemplateLayers
from opencomputer.server.host.locks import exclusive
from opencomputer.server.templates.catalogue import (
    ImageOrigin,
    Template,
    TemplateMissing,
    current_template,
    describe,
    find_template,
    list_templates,
    make_current,
    prune_templates,
    remove_template,
)
from opencomputer.server.templates.layers import InstalledTemplates

BUILT_AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def install(templates: Path, name: str, hash: str, *, age_days: int = 0) -> Template:
    folder = templates / name / hash
    (folder / "rootfs").mkdir(parents=True)
    template = Template(
        name=name,
        hash=hash,
        rootfs=folder / "rootfs",
        description="for a test",
        built_at=BUILT_AT - timedelta(days=age_days),
        size_bytes=12,
        package_count=3,
        current=False,
    )
    (folder / "template.json").write_text(describe(template))
    return template


def test_what_was_described_is_read_back(tmp_path: Path) -> None:
    """template.json holds everything about a template."""
    template = install(tmp_path, "base", "aa")
    assert find_template(tmp_path, "base", "aa") == template


def test_templates_are_listed_by_name_and_newest_first(tmp_path: Path) -> None:
    """The one to start from stands on top of its name."""
    install(tmp_path, "web", "cc")
    install(tmp_path, "base", "aa", age_days=3)
    install(tmp_path, "base", "bb", age_days=1)
    make_current(tmp_path, "base", "bb")
    listed = [(template.name, template.hash, template.current) for template in list_templates(tmp_path)]
    assert listed == [("base", "bb", True), ("base", "aa", False), ("web", "cc", False)]


def test_a_missing_folder_holds_no_templates(tmp_path: Path) -> None:
    """A node that never built one lists none."""
    assert list_templates(tmp_path / "nothing") == []


def test_half_built_and_broken_folders_are_no_templates(tmp_path: Path) -> None:
    """Only what was finished and can be described counts."""
    (tmp_path / "base/.building-aa/rootfs").mkdir(parents=True)
    (tmp_path / "base/bb/rootfs").mkdir(parents=True)
    (tmp_path / "base/cc").mkdir()
    (tmp_path / "base/cc/template.json").write_text('{"name": "base"')
    assert list_templates(tmp_path) == []


def test_the_current_one_is_found_by_name(tmp_path: Path) -> None:
    """Making another one current takes effect at once."""
    template = install(tmp_path, "base", "aa")
    install(tmp_path, "base", "bb")
    make_current(tmp_path, "base", "bb")
    make_current(tmp_path, "base", "aa")
    assert current_template(tmp_path, "base") == replace(template, current=True)


def test_a_name_without_a_current_template_is_missing(tmp_path: Path) -> None:
    """Neither an unknown name nor a link to nowhere gives a template."""
    with pytest.raises(TemplateMissing):
        current_template(tmp_path, "base")
    (tmp_path / "base").mkdir()
    make_current(tmp_path, "base", "gone")
    with pytest.raises(TemplateMissing):
        current_template(tmp_path, "base")


def test_removing_takes_the_folder_and_the_link(tmp_path: Path) -> None:
    """Nothing of a removed template is left that could be mistaken for one."""
    install(tmp_path, "base", "aa")
    kept = install(tmp_path, "base", "bb")
    make_current(tmp_path, "base", "aa")
    removed = remove_template(tmp_path, "base", "aa")
    assert [template.hash for template in removed] == ["aa"]
    assert list_templates(tmp_path) == [kept]
    assert sorted(path.name for path in (tmp_path / "base").iterdir()) == ["bb"]


def test_removing_a_name_takes_all_its_builds(tmp_path: Path) -> None:
    """Without a hash everything of that name goes, and nothing else."""
    install(tmp_path, "base", "aa")
    install(tmp_path, "base", "bb")
    install(tmp_path, "web", "cc")
    remove_template(tmp_path, "base")
    assert [template.name for template in list_templates(tmp_path)] == ["web"]


def test_removing_what_is_not_there_says_so(tmp_path: Path) -> None:
    """A mistyped name is an error, not a success."""
    with pytest.raises(TemplateMissing, match="base/zz"):
        remove_template(tmp_path, "base", "zz")


def test_what_an_image_says_is_read_back(tmp_path: Path) -> None:
    """Where it came from, and what its sandboxes have by default."""
    template = replace(
        install(tmp_path, "web", "aa"),
        environment={"PORT": "80"},
        workdir="/app",
        image=ImageOrigin("docker://web:1", "sha256:ab", "node"),
    )
    (tmp_path / "web/aa/template.json").write_text(describe(template))
    assert find_template(tmp_path, "web", "aa") == template
    layers = InstalledTemplates(tmp_path).find("web", "aa")
    assert layers == TemplateLayers("web", "aa", (template.rootfs,), {"PORT": "80"}, "/app")


def test_an_old_build_is_found_by_its_hash_only(tmp_path: Path) -> None:
    """What was made from it goes on with it; new sandboxes take the current one."""
    install(tmp_path, "web", "aa")
    install(tmp_path, "web", "bb")
    make_current(tmp_path, "web", "bb")
    installed = InstalledTemplates(tmp_path)
    assert [template.hash for template in installed.list()] == ["bb"]
    assert (found := installed.get("web"))
    assert found.hash == "bb"
    assert (old := installed.find("web", "aa"))
    assert old.hash == "aa"
    for name, hash in (("web", "cc"), ("web", "."), ("..", "web"), ("web", "a/a"), ("x" * 5000, "aa")):
        assert installed.find(name, hash) is None


def prune_later(templates: Path, *wanted: str, after: timedelta = timedelta(hours=1)) -> list[str]:
    now = datetime.now(UTC) + after
    return [template.hash for template in prune_templates(templates, wanted, now)]


def test_pruning_keeps_what_is_current_or_wanted(tmp_path: Path) -> None:
    """Of every template."""
    for name, hash in (("web", "aa"), ("web", "bb"), ("web", "cc"), ("base", "dd"), ("base", "ee")):
        install(tmp_path, name, hash)
    make_current(tmp_path, "web", "aa")
    make_current(tmp_path, "base", "dd")
    assert prune_later(tmp_path, "bb") == ["ee", "cc"]
    assert [template.hash for template in list_templates(tmp_path)] == ["dd", "aa", "bb"]
    assert sorted(path.name for path in (tmp_path / "web").iterdir()) == ["aa", "bb", "current"]


def test_nothing_is_pruned_just_after_the_current_build_changed(tmp_path: Path) -> None:
    """Somebody may be starting from the former one, and have said so nowhere yet."""
    install(tmp_path, "web", "aa")
    install(tmp_path, "web", "bb")
    make_current(tmp_path, "web", "bb")
    assert prune_later(tmp_path, after=timedelta(minutes=1)) == []
    assert InstalledTemplates(tmp_path, tmp_path).prune([]) == []


def test_nothing_is_pruned_without_a_current_build_or_during_a_build(tmp_path: Path) -> None:
    """A build that was published is not current at once."""
    install(tmp_path, "web", "aa")
    assert prune_later(tmp_path) == []
    make_current(tmp_path, "web", "bb")
    with exclusive(tmp_path / ".lock"):
        assert prune_later(tmp_path) == []
    assert prune_later(tmp_path) == ["aa"]
    assert prune_later(tmp_path / "nothing") == []
