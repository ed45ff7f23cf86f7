"""A node's folder with one thing wrong: `oc doctor` finds it, says what to do, and raises nothing itself."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from opencomputer.server.examination import data
from opencomputer.server.examination.leftovers import check_leftovers
from opencomputer.server.stores.artefacts.manifest import Manifest, measure
from opencomputer.server.stores.keyring.file import FileKeyring
from tests.unit.server.backups.test_backups import Node

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
async def made(tmp_path_factory: pytest.TempPathFactory, anyio_backend: str) -> Path:
    """What a node with one checkpoint leaves, whose memory image is a real one."""
    node = Node(tmp_path_factory.mktemp("made") / "data")
    await node.make()
    (node.data / "keyring.json").unlink()
    FileKeyring.open_or_create(node.data / "keyring.json")
    image = node.data.parent / "image"
    image.mkdir()
    (image / "pages.img").write_bytes(b"pages" * 5000)
    manifest = measure(image)
    node.blob(f"memories/{manifest.id}/0", (image / "pages.img").read_bytes())
    node.blob(f"memories/{manifest.id}/manifest.json", manifest.to_bytes())
    assert hashlib.sha256(manifest.to_bytes()).hexdigest() == manifest.id
    node.execute("update snapshots set memory_id = ?", manifest.id)
    return node.data


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    shutil.copytree(made, tmp_path / "data")
    return tmp_path / "data"


def failed(folder: Path, *, deep: bool = False) -> dict[str, str]:
    checks = [*data.check_data(folder, deep=deep), *check_leftovers(folder, running=False)]
    assert all(check.fix for check in checks if check.status != "ok")
    return {check.name: check.summary for check in checks if check.status == "fail"}


def blobs(folder: Path, kind: str) -> list[Path]:
    return sorted((folder / "artefacts/blobs" / kind).iterdir())


def image(folder: Path) -> Path:
    known = (
        each for each in blobs(folder, "memories") if b"pages.img" in (each / "manifest.json").read_bytes()
    )
    return next(known)


def test_nothing_is_wrong_with_what_is_whole(folder: Path) -> None:
    assert failed(folder, deep=True) == {}
    assert Manifest.from_bytes((image(folder) / "manifest.json").read_bytes()).files


@pytest.mark.parametrize("content", ["{", "[]", "{}", None])
def test_a_node_that_does_not_know_itself_is_found(folder: Path, content: str | None) -> None:
    (folder / "node.json").unlink()
    if content is not None:
        (folder / "node.json").write_text(content)
    assert "node.json" in failed(folder)["data"]


def test_a_database_that_is_gone_is_found(folder: Path) -> None:
    (folder / "opencomputer.db").unlink()
    assert "opencomputer.db is missing" in failed(folder)["data"]


def test_a_database_that_is_empty_is_damaged(folder: Path) -> None:
    (folder / "opencomputer.db").write_bytes(b"")
    assert "damaged" in failed(folder)["database"]


def test_damage_in_the_names_of_tables_is_found(folder: Path) -> None:
    file = folder / "opencomputer.db"
    content = file.read_bytes()
    file.write_bytes(content.replace(b"NOT NULL", b"NOT NUL\x8f"))
    assert "damaged" in failed(folder)["database"]


def _without_a_layer(folder: Path) -> None:
    wanted = {path.stem: path for path in blobs(folder, "layers")}
    next(iter(wanted.values())).unlink()


def _without_blobs(folder: Path) -> None:
    shutil.rmtree(folder / "artefacts")


def _without_an_image(folder: Path) -> None:
    shutil.rmtree(image(folder))


def _without_a_file_of_an_image(folder: Path) -> None:
    (image(folder) / "0").unlink()


def _with_a_manifest_of_another_image(folder: Path) -> None:
    (image(folder) / "manifest.json").write_text(json.dumps({"files": [], "folders": []}))


@pytest.mark.parametrize(
    "harm",
    [
        _without_a_layer,
        _without_blobs,
        _without_an_image,
        _without_a_file_of_an_image,
        _with_a_manifest_of_another_image,
    ],
)
def test_what_saved_sandboxes_stand_on_is_missed(folder: Path, harm: Callable[[Path], object]) -> None:
    harm(folder)
    assert "saved states" in failed(folder)


def test_an_image_that_is_not_what_it_was_is_found_by_reading_it(folder: Path) -> None:
    pages = image(folder) / "0"
    pages.write_bytes(pages.read_bytes()[:-1] + b"x")
    assert "saved states" not in failed(folder)
    assert "damaged" in failed(folder, deep=True)["saved states"]
