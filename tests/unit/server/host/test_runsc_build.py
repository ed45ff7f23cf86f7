"""A runsc is judged by what it says of itself: old and new builds say it differently."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from opencomputer.server.host.runsc_build import (
    RunscMissing,
    choose,
    describe_gaps,
    find_runsc,
    interpret,
    release_date,
)

FLAGS = """  -directfs
    \tdirectly access the container filesystems from the sentry. (default true)
  -net-disconnect-ok
    \tdisconnect open connections on save.
  -overlay2 value
    \twrap mounts with overlayfs.
"""
SUID = "  -allow-suid\n    \tallows ID elevation.\n"
CONNECTED = "  -allow-connected-on-save\n    \tallows saving with open connections.\n"
PATH = Path("/usr/bin/runsc")


def pretend(folder: Path, name: str, version: str, flags: str = FLAGS) -> Path:
    """A program that answers as runsc does."""
    path = folder / name
    path.write_text(
        f"#!/bin/sh\ncase $1 in\n--version) echo 'runsc version {version}' ;;\n*) cat {path}.flags\nesac\n"
    )
    path.with_name(f"{name}.flags").write_text(flags)
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    ("version", "released"),
    [
        ("0.0~20240729.0", date(2024, 7, 29)),
        ("0.0~20221219.0", date(2022, 12, 19)),
        ("release-20261116.0", date(2026, 11, 16)),
        ("release-20261116.0-12-gabcdef012345", date(2026, 11, 16)),
        ("go-20260905", date(2026, 9, 5)),
        ("VERSION_MISSING", None),
        ("release-20269999.0", None),
    ],
)
def test_the_day_of_release_is_read_from_every_kind_of_version(version: str, released: date | None) -> None:
    """Distribution, official build and Go module each have their own form; a commit hash is not a day."""
    assert release_date(version) == released


def test_the_distributions_build_of_2024_is_new_enough_but_has_gaps() -> None:
    """It lacks set-user-ID programs and the saving of deleted files, and says so."""
    build = interpret(PATH, "runsc version 0.0~20240729.0\nspec: 1.0.2-dev\n", FLAGS)
    assert build is not None
    assert (build.version, build.too_old) == ("0.0~20240729.0", False)
    assert not build.honours_setuid
    assert not build.saves_deleted_files
    assert not build.keeps_connections
    assert len(describe_gaps(build)) == 3


def test_a_current_build_has_no_gaps() -> None:
    """What a build can do follows from the options it knows."""
    build = interpret(PATH, "runsc version release-20261116.0\nspec: 1.2.1\n", FLAGS + SUID + CONNECTED)
    assert build is not None
    assert build.honours_setuid
    assert describe_gaps(build) == []


def test_a_build_of_2022_is_too_old() -> None:
    """Its day alone decides, whatever options it has."""
    build = interpret(PATH, "runsc version 0.0~20221219.0\n", FLAGS)
    assert build is not None
    assert build.too_old


def test_a_build_without_a_day_is_judged_by_its_options() -> None:
    """A module built by hand does not know its version."""
    with_options = interpret(PATH, "runsc version VERSION_MISSING\n", FLAGS)
    without = interpret(PATH, "runsc version VERSION_MISSING\n", "  -root string\n")
    assert with_options is not None
    assert not with_options.too_old
    assert without is not None
    assert without.too_old


def test_something_else_with_that_name_is_not_runsc() -> None:
    """A program that prints something else is passed over."""
    assert interpret(PATH, "runc version 1.1.5\n", FLAGS) is None


def test_the_first_build_that_is_new_enough_is_chosen(tmp_path: Path) -> None:
    """An old one in front does not hide a better one behind it."""
    old = pretend(tmp_path, "old", "0.0~20221219.0")
    new = pretend(tmp_path, "new", "0.0~20240729.0")
    newest = pretend(tmp_path, "newest", "release-20261116.0", FLAGS + SUID)
    assert choose([tmp_path / "missing", old, new, newest]).path == new


def test_when_all_are_too_old_the_first_is_returned_and_says_so(tmp_path: Path) -> None:
    """The caller can name what it found."""
    old = pretend(tmp_path, "old", "0.0~20221219.0")
    build = choose([old])
    assert (build.path, build.too_old) == (old, True)


def test_the_operators_choice_is_the_only_candidate(tmp_path: Path) -> None:
    """Whoever names a build gets that one or an error, never another one silently."""
    chosen = pretend(tmp_path, "mine", "release-20261116.0")
    assert find_runsc(str(chosen)).path == chosen
    with pytest.raises(RunscMissing, match="gone"):
        find_runsc(str(tmp_path / "gone"))
