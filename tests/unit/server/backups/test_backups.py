"""Backups of a small data folder: what is in them, what is refused, what is left when one is cut short."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sqlite3
import sys
import threading
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest
from anyio import run_process

from opencomputer.server.backups import keys
from opencomputer.server.backups.create import BackupOptions, Made, NodePlace, create_backup
from opencomputer.server.backups.errors import BackupDamaged, BackupError, TargetInUse
from opencomputer.server.backups.manifest import Manifest, read_manifest
from opencomputer.server.backups.pinning import pinned
from opencomputer.server.backups.restore import RestoreOptions, restore_backup
from opencomputer.server.backups.vault import FolderVault
from opencomputer.server.backups.verify import list_backups, verify_backup
from opencomputer.server.identity import UNFINISHED, DataFolder, DataFolderUnfinished
from opencomputer.server.stores.sql.database import Database

pytestmark = pytest.mark.anyio

_NOW = "2026-01-01 12:00:00.000000"
_SNAPSHOT = """insert into snapshots (id, org_id, sandbox_id, purpose, kind, state, name, created_at,
    is_public, size_bytes, template, template_hash, memory_mb, cpu_count, disk_mb, layers, environment,
    metadata, network_enabled, generation, patch_position, memory_id, memory_guest_token)
    values (?, 'org-1', null, 'checkpoint', 'full', ?, 'n', ?, 0, 1, 'base', 'h1', 4096, 1, 20480, ?,
    '{}', '{}', 1, 0, 0, ?, 'token')"""

_PLAIN = BackupOptions()
_NEWEST = RestoreOptions()


class Node:
    """A data folder as a node leaves one, with as little in it as a test needs."""

    def __init__(self, data: Path) -> None:
        self.data = data
        self.place = NodePlace(data, data.parent / "templates", "0.1.0")
        self.layers: list[str] = []
        self.memory = ""

    async def make(self) -> None:
        folder = DataFolder(self.data)
        folder.open()
        folder.close()
        database = Database.sqlite(folder.database)
        await database.open()
        await database.close()
        (self.data / "keyring.json").write_text('{"a": "key"}')
        self.execute("insert into organisations values ('org-1', 'an organisation', ?)", _NOW)
        self.execute(
            "insert into machines values ('m1', 'claimed', 'h1', 'v', 'token', ?, null, null, '[]')", _NOW
        )
        self.memory = self._memory([b"pages" + bytes(3 << 20) + b"end", b"state"])
        self.layers = [self.layer(b"one"), self.layer(b"two")]
        self.snapshot("cp-1", self.layers, self.memory)
        states = self.data / "brain-states/states/ses_1"
        states.mkdir(parents=True)
        (states / "trn_1").write_bytes(b"what a brain knows")

    def execute(self, statement: str, *values: object) -> None:
        with closing(sqlite3.connect(self.data / "opencomputer.db")) as connection, connection:
            connection.execute(statement, values)

    def snapshot(self, id: str, layers: Sequence[str], memory: str | None, state: str = "ready") -> None:
        self.execute(_SNAPSHOT, id, state, _NOW, json.dumps(layers), memory)

    def layer(self, content: bytes) -> str:
        name = hashlib.sha256(content).hexdigest()
        self.blob(f"layers/{name}.tar", content)
        return name

    def _memory(self, files: Sequence[bytes]) -> str:
        manifest = json.dumps([hashlib.sha256(each).hexdigest() for each in files]).encode()
        name = hashlib.sha256(manifest).hexdigest()
        for number, content in enumerate(files):
            self.blob(f"memories/{name}/{number}", content)
        self.blob(f"memories/{name}/manifest.json", manifest)
        return name

    def blob(self, key: str, content: bytes) -> None:
        file = self.data / "artefacts/blobs" / key
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)

    def back_up(self, target: Path, options: BackupOptions = _PLAIN) -> Made:
        return create_backup(self.place, target, options)


@pytest.fixture(scope="module")
async def made_once(tmp_path_factory: pytest.TempPathFactory, anyio_backend: str) -> Node:
    made = Node(tmp_path_factory.mktemp("made") / "data")
    await made.make()
    return made


@pytest.fixture
def node(made_once: Node, tmp_path: Path) -> Node:
    """A node of the test's own."""
    shutil.copytree(made_once.data, tmp_path / "data")
    node = Node(tmp_path / "data")
    node.layers, node.memory = list(made_once.layers), made_once.memory
    return node


def restored(source: Path, target: Path, options: RestoreOptions = _NEWEST) -> Path:
    restore_backup(source, NodePlace(target, target.parent / "templates", "0.1.0"), options)
    return target


def contents(folder: Path) -> dict[str, bytes]:
    files = (file for file in folder.rglob("*") if file.is_file())
    return {str(file.relative_to(folder)): file.read_bytes() for file in files}


@pytest.mark.parametrize("name", ["vault", "one.tar"])
async def test_what_was_backed_up_comes_back_whole(node: Node, tmp_path: Path, name: str) -> None:
    made = node.back_up(tmp_path / name)
    assert made.manifest.missing == ()
    assert made.manifest.counts["organisations"] == 1
    target = restored(tmp_path / name, tmp_path / "new" / "data")
    before, after = contents(node.data), contents(target)
    for each in ("artefacts/blobs", "brain-states"):
        assert contents(target / each) == contents(node.data / each)
    assert after["keyring.json"] == before["keyring.json"]
    assert UNFINISHED not in after
    assert verify_backup(tmp_path / name).faults == []
    assert not list(node.data.glob("backups-in-the-making/*/"))


async def test_a_restored_node_has_another_tag_and_none_of_the_old_ones_machines(
    node: Node, tmp_path: Path
) -> None:
    """Both may be on one host, and the old one's machines must not be the new one's to end."""
    node.back_up(tmp_path / "vault")
    target = restored(tmp_path / "vault", tmp_path / "new")
    old, new = (json.loads((each / "node.json").read_text()) for each in (node.data, target))
    assert old.pop("tag") != new.pop("tag")
    assert old == new
    with closing(sqlite3.connect(target / "opencomputer.db")) as connection:
        assert connection.execute("select count(*) from machines").fetchone() == (0,)
        assert connection.execute("select count(*) from snapshots").fetchone() == (1,)


async def test_holes_stay_holes(node: Node, tmp_path: Path) -> None:
    node.back_up(tmp_path / "vault")
    target = restored(tmp_path / "vault", tmp_path / "new")
    pages = target / "artefacts/blobs/memories" / node.memory / "0"
    assert pages.stat().st_blocks * 512 < 1 << 20 < pages.stat().st_size


async def test_a_second_backup_copies_only_what_is_new(node: Node, tmp_path: Path) -> None:
    first = node.back_up(tmp_path / "vault")
    node.snapshot("cp-2", [*node.layers, node.layer(b"three")], None)
    second = node.back_up(tmp_path / "vault")
    database, keys = (second.manifest.entry(each) for each in ("opencomputer.db", "keys.json"))
    assert database is not None
    assert keys is not None
    assert second.new_bytes == database.size_bytes + keys.size_bytes + len(b"three")
    assert second.new_bytes < first.new_bytes
    assert [each.id for each in list_backups(tmp_path / "vault").manifests] == sorted(
        [first.manifest.id, second.manifest.id]
    )


async def test_what_no_row_wants_is_left_out(node: Node, tmp_path: Path) -> None:
    node.layer(b"of nobody")
    node.snapshot("cp-2", [node.layer(b"of what failed")], None, state="failed")
    node.back_up(tmp_path / "vault")
    target = restored(tmp_path / "vault", tmp_path / "new")
    layers = target / "artefacts/blobs/layers"
    assert sorted(each.stem for each in layers.iterdir()) == sorted(node.layers)


async def test_a_sweep_takes_nothing_from_a_backup_that_is_being_made(node: Node) -> None:
    with pinned(node.data) as moment:
        for blob in (node.data / "artefacts/blobs/layers").iterdir():
            blob.unlink()
        layers = [file.read_bytes() for path, file in moment.files.items() if "layers" in path]
    assert sorted(layers) == [b"one", b"two"]


async def test_an_artefact_that_the_node_lost_is_told_and_the_rest_saved(node: Node, tmp_path: Path) -> None:
    (node.data / f"artefacts/blobs/layers/{node.layers[0]}.tar").unlink()
    made = node.back_up(tmp_path / "vault")
    assert made.manifest.missing == (f"artefacts/blobs/layers/{node.layers[0]}.tar",)
    assert verify_backup(tmp_path / "vault").faults == []


async def test_the_copy_is_of_one_moment_while_others_write(node: Node, tmp_path: Path) -> None:
    """Two tables that are changed together never differ in a copy."""
    done = threading.Event()

    def write() -> None:
        with closing(sqlite3.connect(node.data / "opencomputer.db", timeout=30)) as connection:
            number = 0
            while not done.is_set():
                number += 1
                with connection:
                    connection.execute("update organisations set name = ?", (str(number),))
                    connection.execute("update snapshots set name = ?", (str(number),))

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(3):
            with pinned(node.data) as moment, closing(sqlite3.connect(moment.database)) as copy:
                pair = copy.execute("select organisations.name, snapshots.name from organisations, snapshots")
                names = set(pair.fetchone())
            assert len(names - {"n", "an organisation"}) in (0, 1)
    finally:
        done.set()
        writer.join()


async def test_only_an_empty_folder_is_restored_into(node: Node, tmp_path: Path) -> None:
    node.back_up(tmp_path / "vault")
    before = contents(node.data)
    with pytest.raises(TargetInUse, match=r"not empty .*empty folder only"):
        restored(tmp_path / "vault", node.data)
    assert contents(node.data) == before


_CUT_SHORT = """
import os, sys
from pathlib import Path
from opencomputer.server.backups import restore
from opencomputer.server.backups.create import NodePlace
count = [int(sys.argv[3])]
real = restore.copy
def copy(*arguments):
    count[0] -= 1
    if count[0] < 0:
        os.kill(os.getpid(), 9)
    return real(*arguments)
restore.copy = copy
restore.restore_backup(Path(sys.argv[1]), NodePlace(Path(sys.argv[2]), Path(sys.argv[2] + "-templates"), "0"))
"""


@pytest.mark.parametrize("steps", [1, 7])
async def test_a_restore_that_is_killed_is_known_for_it_and_can_be_begun_anew(
    node: Node, tmp_path: Path, steps: int
) -> None:
    node.back_up(tmp_path / "vault")
    target = tmp_path / "new"
    command = [sys.executable, "-c", _CUT_SHORT, str(tmp_path / "vault"), str(target), str(steps)]
    assert (await run_process(command, check=False)).returncode == -9
    with pytest.raises(DataFolderUnfinished, match="oc backup restore"):
        DataFolder(target).open()
    restored(tmp_path / "vault", target)
    DataFolder(target).open()
    assert contents(target / "artefacts") == contents(node.data / "artefacts")


async def test_damage_is_found_and_nothing_damaged_is_started(node: Node, tmp_path: Path) -> None:
    made = node.back_up(tmp_path / "vault")
    entry = next(each for each in made.manifest.entries if each.path.endswith("/0"))
    file = tmp_path / "vault/objects" / entry.digest
    with file.open("r+b") as stream:
        stream.seek(1 << 20)
        stream.write(b"x")
    assert verify_backup(tmp_path / "vault").faults == [
        f"{entry.path}: its content is not what was put there"
    ]
    with pytest.raises(BackupDamaged, match="damaged"):
        restored(tmp_path / "vault", tmp_path / "new")
    with pytest.raises(DataFolderUnfinished):
        DataFolder(tmp_path / "new").open()
    file.unlink()
    assert "missing" in verify_backup(tmp_path / "vault").faults[0]


async def test_a_manifest_that_was_changed_is_refused(node: Node, tmp_path: Path) -> None:
    made = node.back_up(tmp_path / "vault")
    file = tmp_path / "vault/backups" / f"{made.manifest.id}.json"
    file.write_text(file.read_text().replace('"org', '"xrg'))
    with pytest.raises(BackupDamaged, match="was changed"):
        verify_backup(tmp_path / "vault")


async def test_a_tar_file_that_was_cut_short_is_no_backup(node: Node, tmp_path: Path) -> None:
    node.back_up(tmp_path / "one.tar")
    os.truncate(tmp_path / "one.tar", (tmp_path / "one.tar").stat().st_size // 2)
    with pytest.raises(BackupError):
        restored(tmp_path / "one.tar", tmp_path / "new")
    assert not (tmp_path / "new").exists()


async def test_a_backup_of_a_newer_program_is_refused_before_anything_is_written(
    node: Node, tmp_path: Path
) -> None:
    node.execute("update alembic_version set version_num = '9999'")
    node.back_up(tmp_path / "vault")
    with pytest.raises(BackupError, match=r"database version 9999; this program knows versions up to"):
        restored(tmp_path / "vault", tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_a_newer_format_is_refused() -> None:
    manifest = Manifest("i", "now", "9.9", "0001", "included", ())
    with pytest.raises(BackupError, match=r"newer OpenComputer \(9.9\)"):
        read_manifest(manifest.to_bytes().replace(b'"format":1', b'"format":2'), "it")


async def test_keys_may_be_kept_elsewhere(node: Node, tmp_path: Path) -> None:
    made = node.back_up(tmp_path / "vault", BackupOptions(separate_keys=tmp_path / "keys"))
    assert made.manifest.keys == "separate"
    assert (tmp_path / "keys").stat().st_mode & 0o777 == 0o600
    assert not any(b"keyring" in each for each in contents(tmp_path / "vault").values())
    with pytest.raises(BackupError, match="--keys"):
        restored(tmp_path / "vault", tmp_path / "new")
    target = restored(tmp_path / "vault", tmp_path / "new", RestoreOptions(keys=tmp_path / "keys"))
    assert (target / "keyring.json").read_text() == '{"a": "key"}'
    with pytest.raises(BackupError, match="exists already"):
        node.back_up(tmp_path / "vault", BackupOptions(separate_keys=tmp_path / "keys"))


async def test_keys_may_be_sealed_with_a_passphrase(node: Node, tmp_path: Path) -> None:
    made = node.back_up(tmp_path / "vault", BackupOptions(passphrase="correct horse"))
    assert made.manifest.keys == "sealed"
    assert not any(b"keyring" in each for each in contents(tmp_path / "vault/objects").values())
    for wrong, said in ((None, "--passphrase-file"), ("battery", "does not open")):
        with pytest.raises(BackupError, match=said):
            restored(tmp_path / "vault", tmp_path / "new", RestoreOptions(passphrase=wrong))
    assert not (tmp_path / "new").exists()
    target = restored(tmp_path / "vault", tmp_path / "new", RestoreOptions(passphrase="correct horse"))
    assert (target / "keyring.json").read_text() == '{"a": "key"}'


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b'{"files": {"../x": "aa"}}', b'{"sealed": 1}'])
def test_keys_that_are_none_are_refused(content: bytes) -> None:
    with pytest.raises(BackupDamaged):
        keys.from_bytes(content, "x")


async def test_old_backups_are_removed_with_what_only_they_had(node: Node, tmp_path: Path) -> None:
    node.back_up(tmp_path / "vault")
    node.execute("delete from snapshots")
    node.layer(b"three")
    last = node.back_up(tmp_path / "vault")
    removed, freed = FolderVault(tmp_path / "vault").prune(1)
    assert removed == 1
    assert freed > 3 << 20
    assert [each.id for each in list_backups(tmp_path / "vault").manifests] == [last.manifest.id]
    assert verify_backup(tmp_path / "vault").faults == []


async def test_a_folder_without_a_database_is_no_node(tmp_path: Path) -> None:
    with pytest.raises(BackupError, match="no node's data folder"):
        Node(tmp_path).back_up(tmp_path / "vault")
    with pytest.raises(BackupError, match="holds no backups"):
        verify_backup(tmp_path)


async def test_builds_of_templates_come_along_when_asked(node: Node, tmp_path: Path) -> None:
    from tests.support.node import make_template

    make_template(node.place.templates)
    (node.place.templates / "base/h1/rootfs/hello").write_text("hello")
    without = node.back_up(tmp_path / "vault")
    assert [(each.name, each.included) for each in without.manifest.templates] == [("base", False)]
    absent = restore_backup(tmp_path / "vault", NodePlace(tmp_path / "a/data", tmp_path / "a/templates", "0"))
    assert absent.absent_templates == ("base/h1",)
    assert absent.stopped_sandboxes == 0
    node.back_up(tmp_path / "vault", BackupOptions(with_templates=True))
    again = restore_backup(tmp_path / "vault", NodePlace(tmp_path / "b/data", tmp_path / "b/templates", "0"))
    assert again.absent_templates == ()
    assert (tmp_path / "b/templates/base/current/rootfs/hello").read_text() == "hello"
