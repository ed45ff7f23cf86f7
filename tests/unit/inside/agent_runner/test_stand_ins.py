"""Importing a package without one of the packages it needs."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Generator
from pathlib import Path

import pytest

from opencomputer.inside.agent_runner.stand_ins import import_without

USER = """
import heavy.parts.wheel
from heavy.types import Base as HeavyBase
from heavy import anything

class Derived(HeavyBase, extra="allow"):
    value = 7

def later():
    import heavy
    return heavy.WEIGHT
"""


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[Path]:
    for name, text in {"heavy": "WEIGHT = 100", "heavy/types": "", "light_user": USER}.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(text)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    yield tmp_path
    for name in [name for name in sys.modules if name.partition(".")[0] in ("heavy", "light_user")]:
        del sys.modules[name]


def test_the_needed_package_is_not_imported(packages: Path) -> None:
    """Its modules, names and classes are only stood in for."""
    (packages / "heavy" / "__init__.py").write_text("raise RuntimeError('imported after all')")
    module = import_without("heavy", "light_user")
    assert module.Derived.value == 7


def test_whoever_imports_it_later_gets_the_real_one(packages: Path) -> None:
    """The package itself included, in a function that is called afterwards."""
    module = import_without("heavy", "light_user")
    assert module.later() == 100
    assert importlib.import_module("heavy").WEIGHT == 100


def test_a_package_that_cannot_do_without_is_imported_properly(packages: Path) -> None:
    """Then it takes as long as it takes."""
    (packages / "light_user" / "__init__.py").write_text("import heavy\nDOUBLE = 2 * heavy.WEIGHT")
    assert import_without("heavy", "light_user").DOUBLE == 200


def test_a_package_that_is_already_there_is_left_alone(packages: Path) -> None:
    """Nobody gets a second copy of it."""
    real = importlib.import_module("heavy")
    (packages / "light_user" / "__init__.py").write_text("import heavy")
    assert import_without("heavy", "light_user").heavy is real
    assert sys.modules["heavy"] is real


def test_a_missing_package_is_an_import_error(packages: Path) -> None:
    """As with a plain import."""
    with pytest.raises(ImportError):
        import_without("heavy", "no_such_package")
    assert not any("stand_ins" in type(finder).__module__ for finder in sys.meta_path)
