"""Backups that are damaged, cut short or do not fit: what is found, what is left, what can be tried again."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from opencomputer.server.backups.create import BackupOptions
from opencomputer.server.backups.errors import BackupDamaged
from opencomputer.server.backups.restore import RestoreOptions
from opencomputer.server.backups.vault import FolderVault
from opencomputer.server.backups.verify import list_backups, verify_backup
from opencomputer.server.identity import UNFINISHED
from tests.unit.server.backups.test_backups import Node, contents, restored

pytestmark = pytest.mark.anyio


@pytest.fixture
async def node(tmp_path: Path) -> Node:
    node = Node(tmp_path / "data")
    await node.make()
    return node


async def test_a_damaged_manifest_is_no_harm_to_other_backups(node: Node, tmp_path: Path) -> None:
    vault = tmp_path / "vault"
    first, second = node.back_up(vault).manifest.id, node.back_up(vault).manifest.id
    (vault / "backups" / f"{second}.json").write_text("{")
    with pytest.raises(BackupDamaged, match=f"--backup {first}"):
        verify_backup(vault)
    assert verify_backup(vault, first).faults == []
    assert UNFINISHED not in contents(restored(vault, tmp_path / "new", RestoreOptions(first)))
    with pytest.raises(BackupDamaged):
        FolderVault(vault).prune(1)
    third = node.back_up(vault).manifest.id
    listed = list_backups(vault)
    assert [each.id for each in listed.manifests] == [first, third]
    assert second in listed.damaged[0]
    assert FolderVault(vault).prune(1)[0] == 2


async def test_keys_that_were_changed_are_not_restored(node: Node, tmp_path: Path) -> None:
    made = node.back_up(tmp_path / "vault")
    entry = made.manifest.entry("keys.json")
    assert entry is not None
    file = tmp_path / "vault/objects" / entry.digest
    changed = file.read_bytes().replace(b"eyJh", b"eyJi")
    assert changed != file.read_bytes()
    file.write_bytes(changed)
    with pytest.raises(BackupDamaged, match=r"keys\.json"):
        restored(tmp_path / "vault", tmp_path / "new")


async def test_damage_that_is_removed_is_mended_by_the_next_backup(node: Node, tmp_path: Path) -> None:
    made = node.back_up(tmp_path / "vault")
    entry = next(each for each in made.manifest.entries if each.path.endswith("/0"))
    file = tmp_path / "vault/objects" / entry.digest
    file.write_bytes(bytes(file.stat().st_size))
    assert verify_backup(tmp_path / "vault").digests == [entry.digest]
    file.unlink()
    node.back_up(tmp_path / "vault")
    assert verify_backup(tmp_path / "vault", made.manifest.id).faults == []


@pytest.mark.parametrize("name", ["vault", "one.tar"])
async def test_what_does_not_fit_leaves_nothing_behind_and_can_be_tried_again(
    node: Node, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    target, options = tmp_path / name, BackupOptions(separate_keys=tmp_path / "keys")

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr("opencomputer.server.backups.copying.os.write", full)
        patched.setattr("opencomputer.server.backups.vault.tarfile.TarFile.addfile", full)
        with pytest.raises(OSError, match="No space") as failed:
            node.back_up(target, options)
    assert str(failed.value.filename).startswith(str(target))
    assert not (tmp_path / "keys").exists()
    assert not target.is_file()
    assert contents(target / "objects") == {}
    node.back_up(target, options)
    assert verify_backup(target).faults == []


async def test_what_a_killed_backup_left_is_cleared_by_the_next(node: Node, tmp_path: Path) -> None:
    node.back_up(tmp_path / "vault")
    for left in ("objects/.draft-1", "backups/.20260101T000000Z-aaaa"):
        (tmp_path / "vault" / left).write_bytes(b"half")
    node.back_up(tmp_path / "vault")
    assert not list((tmp_path / "vault").glob("*/.*"))


async def test_a_new_disk_is_an_empty_folder(node: Node, tmp_path: Path) -> None:
    node.back_up(tmp_path / "vault")
    (tmp_path / "disk/lost+found").mkdir(parents=True)
    target = restored(tmp_path / "vault", tmp_path / "disk")
    assert (target / "lost+found").is_dir()
    assert (target / "opencomputer.db").exists()
