"""The version is that of the installed distribution."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

from opencomputer.sdk.version import DISTRIBUTION, UNKNOWN, installed_version, version_in


def test_it_is_what_the_installation_says() -> None:
    assert installed_version() == metadata.version(DISTRIBUTION)


def test_it_is_read_where_the_package_would_be_found_first(tmp_path: Path) -> None:
    for place, version in (("one", "1.2.0rc1"), ("two", "0.9")):
        (tmp_path / place / f"opencomputer_sdk-{version}.dist-info").mkdir(parents=True)
        (tmp_path / place / "opencomputer_sdk_extra-7.dist-info").mkdir()
    folders = [str(tmp_path / name) for name in ("missing", "one", "two")]
    assert version_in(folders) == "1.2.0rc1"
    assert version_in(folders[:1]) == UNKNOWN == "dev"
