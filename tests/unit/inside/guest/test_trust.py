"""One more authority in the bundles of an image, whatever the image is like."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from opencomputer.inside.guest.trust import AUTHORITY, BUNDLES, install_authority, with_authority


def _pem(content: str) -> str:
    return f"-----BEGIN CERTIFICATE-----\n{content}\n-----END CERTIFICATE-----\n"


PUBLIC, OURS, NEWER = _pem("cHVibGlj"), _pem("b3Vycw=="), _pem("bmV3ZXI=")


def _bundle(root: Path, number: int = 0) -> Path:
    return Path(f"{root}{BUNDLES[number]}")


def _give(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def test_the_authority_is_added_to_what_the_image_trusts(tmp_path: Path) -> None:
    _give(_bundle(tmp_path), PUBLIC)
    install_authority(OURS, str(tmp_path))
    assert PUBLIC in _bundle(tmp_path).read_text()
    assert OURS in _bundle(tmp_path).read_text()
    assert Path(f"{tmp_path}{AUTHORITY}").read_text() == OURS
    assert _bundle(tmp_path).stat().st_mode & 0o777 == 0o644


def test_installing_again_changes_nothing(tmp_path: Path) -> None:
    _give(_bundle(tmp_path), PUBLIC)
    install_authority(OURS, str(tmp_path))
    before = (_bundle(tmp_path).stat().st_ino, _bundle(tmp_path).read_text())
    install_authority(OURS, str(tmp_path))
    assert (_bundle(tmp_path).stat().st_ino, _bundle(tmp_path).read_text()) == before


def test_another_nodes_authority_takes_the_place_of_the_earlier_one(tmp_path: Path) -> None:
    _give(_bundle(tmp_path), PUBLIC)
    install_authority(OURS, str(tmp_path))
    install_authority(NEWER, str(tmp_path))
    text = _bundle(tmp_path).read_text()
    assert (OURS in text, NEWER in text, PUBLIC in text) == (False, True, True)
    assert Path(f"{tmp_path}{AUTHORITY}").read_text() == NEWER


def test_a_bundle_that_the_systems_own_tool_made_anew_is_left_as_it_is(tmp_path: Path) -> None:
    _give(_bundle(tmp_path), PUBLIC + OURS)
    install_authority(OURS, str(tmp_path))
    assert _bundle(tmp_path).read_text() == PUBLIC + OURS


def test_an_image_without_certificates_gets_a_bundle(tmp_path: Path) -> None:
    install_authority(OURS, str(tmp_path))
    assert OURS in _bundle(tmp_path).read_text()
    assert [_bundle(tmp_path, number).exists() for number in (1, 2, 3)] == [False, False, False]


def test_a_distribution_with_a_bundle_elsewhere_gets_it_in_both_places(tmp_path: Path) -> None:
    _give(_bundle(tmp_path, 1), PUBLIC)
    install_authority(OURS, str(tmp_path))
    for number in (0, 1):
        assert PUBLIC in _bundle(tmp_path, number).read_text()
        assert _bundle(tmp_path, number).read_text().count(OURS) == 1


def test_a_link_to_the_bundle_stays_a_link(tmp_path: Path) -> None:
    real = tmp_path / "real.pem"
    _give(real, PUBLIC)
    _bundle(tmp_path).parent.mkdir(parents=True)
    _bundle(tmp_path).symlink_to(real)
    _bundle(tmp_path, 3).symlink_to(real)
    install_authority(OURS, str(tmp_path))
    assert _bundle(tmp_path).is_symlink()
    assert real.read_text().count(OURS) == 1


@pytest.mark.parametrize("kind", ["folder", "pipe"])
def test_a_place_that_cannot_be_changed_is_left(tmp_path: Path, kind: str) -> None:
    """A named pipe in particular must not make the guest wait."""
    _bundle(tmp_path).parent.mkdir(parents=True)
    if kind == "folder":
        _bundle(tmp_path).mkdir()
    else:
        os.mkfifo(_bundle(tmp_path))
    install_authority(OURS, str(tmp_path))
    assert Path(f"{tmp_path}{AUTHORITY}").read_text() == OURS


def test_a_bundle_without_a_last_line_end_and_with_strange_bytes_is_kept() -> None:
    text = "# caf\udce9\n" + PUBLIC.rstrip("\n")
    assert with_authority(text, OURS).startswith(text + "\n")
