"""A recipe is read once, checked, and hashed so that every change of it is noticed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from opencomputer.server.templates.recipe import InvalidRecipe, load_recipe, template_hash

RECIPE = """
name = "small"
packages = ["bash"]
[variables]
VERSION = "1"
[modes]
"etc/secret" = "0440"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "recipe.toml").write_text(RECIPE)
    (tmp_path / "customise.sh").write_text("true\n")
    (tmp_path / "files/etc").mkdir(parents=True)
    (tmp_path / "files/etc/motd").write_text("hello\n")
    return tmp_path


def hash_of(
    folder: Path, *, host: str = "debian/bookworm/x86_64", certificates: tuple[bytes, ...] = ()
) -> str:
    return template_hash(load_recipe(folder), host=host, certificates=certificates)


def test_a_recipe_says_what_its_file_says(folder: Path) -> None:
    """Names, lists, variables and octal modes arrive as written."""
    recipe = load_recipe(folder)
    assert (recipe.name, recipe.packages) == ("small", ("bash",))
    assert recipe.variables == {"VERSION": "1"}
    assert recipe.modes == {"etc/secret": 0o440}


def _edit_script(folder: Path) -> None:
    (folder / "customise.sh").write_text("false\n")


def _add_file(folder: Path) -> None:
    (folder / "files/etc/more").write_text("")


def _make_executable(folder: Path) -> None:
    (folder / "files/etc/motd").chmod(0o755)


def _rename_file(folder: Path) -> None:
    (folder / "files/etc/motd").rename(folder / "files/etc/issue")


def _add_link(folder: Path) -> None:
    (folder / "files/etc/link").symlink_to("motd")


@pytest.mark.parametrize("change", [_edit_script, _add_file, _make_executable, _rename_file, _add_link])
def test_every_change_of_the_recipe_gives_another_hash(folder: Path, change: Callable[[Path], None]) -> None:
    """A template is rebuilt when anything that goes into it has changed."""
    before = hash_of(folder)
    change(folder)
    assert hash_of(folder) != before


def test_the_hash_does_not_depend_on_where_or_when_the_recipe_was_checked_out(folder: Path) -> None:
    """The same content in another folder, with other times, needs no rebuild."""
    before = hash_of(folder)
    moved = folder.parent / "elsewhere"
    folder.rename(moved)
    (moved / "customise.sh").touch()
    assert hash_of(moved) == before


def test_the_host_and_its_certificates_are_part_of_the_hash(folder: Path) -> None:
    """Another release or another trusted authority makes another template; their order does not."""
    plain = hash_of(folder)
    assert hash_of(folder, host="ubuntu/noble/x86_64") != plain
    assert hash_of(folder, certificates=(b"a", b"b")) != plain
    assert hash_of(folder, certificates=(b"a", b"b")) == hash_of(folder, certificates=(b"b", b"a"))


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("name = 'Bad Name'", "`name` must be"),
        ("name = 'x'\npackages = 'bash'", "`packages` must be a list"),
        ("name = 'x'\nextra = 1", "unknown keys: extra"),
        ("name = ", "cannot be read"),
        ("name = 'x'\n[variables]\nA = 1", "`variables` must be a table of strings"),
        ("name = 'x'\n[modes]\n'etc/x' = 'rw-'", "octal"),
        ("name = 'x'\n[modes]\n'../../etc/x' = '0644'", "inside the template"),
    ],
)
def test_a_wrong_recipe_is_refused_with_what_is_wrong(folder: Path, text: str, complaint: str) -> None:
    """The message names the key, so that nobody has to guess."""
    (folder / "recipe.toml").write_text(text)
    with pytest.raises(InvalidRecipe, match=complaint):
        load_recipe(folder)


def test_a_missing_recipe_is_refused(tmp_path: Path) -> None:
    """An empty folder is not a template without packages."""
    with pytest.raises(InvalidRecipe, match="no recipe"):
        load_recipe(tmp_path)
