"""The facade has all that the asynchronous SDK has, under the same names, with the same parameters."""

from __future__ import annotations

import inspect
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

import opencomputer
from opencomputer import blocking
from opencomputer.blocking.support.twin import Twin
from tests.architecture.tree import REPOSITORY

AWAITED = {"SandboxRequest"}
"""Only there to be awaited: who blocks gets what it comes to."""
OF_THE_FACADE = {"Page", "Stream"}
RENAMED = {"__aenter__": "__enter__", "__aexit__": "__exit__", "__aiter__": "__iter__"}
SEAMS = {"sleep", "now"}
MACHINERY = {"Shell": {"open"}}
"""Members that only the SDK itself can call."""


def classes() -> list[tuple[type, type]]:
    """Each class with a twin, and the twin; those that hang on others too."""
    waiting = [getattr(blocking, name) for name in blocking.__all__]
    seen: set[type] = set()
    found: list[tuple[type, type]] = []
    while waiting:
        twin = waiting.pop()
        if not (inspect.isclass(twin) and issubclass(twin, Twin)) or twin in seen:
            continue
        seen.add(twin)
        module = sys.modules[twin.__module__]
        waiting += vars(module).values()
        if not twin.__module__.startswith("opencomputer.blocking.support"):
            source = sys.modules[twin.__module__.replace(".blocking", ".sdk", 1)]
            found.append((getattr(source, twin.__name__), twin))
    return found


def members(owner: type) -> list[str]:
    """What the SDK's own classes offer to users."""
    own = [each for each in owner.__mro__ if each.__module__.startswith("opencomputer.")]
    names = {name for each in own for name in vars(each)} - MACHINERY.get(owner.__name__, set())
    return [name for name in names if name in RENAMED or not name.startswith("_")]


def parameters(function: Callable[..., Any]) -> list[tuple[str, object, object]]:
    return [
        (each.name, each.kind, each.default)
        for each in inspect.signature(function).parameters.values()
        if each.name not in SEAMS
    ]


def test_every_public_name_is_there() -> None:
    assert set(blocking.__all__) == set(opencomputer.__all__) - AWAITED | OF_THE_FACADE
    assert all(getattr(blocking, name) is not None for name in blocking.__all__)
    assert set(dir(blocking)) == set(blocking.__all__)
    assert not hasattr(blocking, "Nonsense")


def test_what_does_not_wait_is_the_very_same() -> None:
    twins = [twin for _, twin in classes()]
    named = {name for name in blocking.__all__ if getattr(blocking, name) in twins}
    for name in set(blocking.__all__) - named - OF_THE_FACADE - {"connect_session"}:
        assert getattr(blocking, name) is getattr(opencomputer, name), name


@pytest.mark.parametrize(("source", "twin"), classes(), ids=lambda each: each.__name__)
def test_a_twin_has_every_member_with_the_same_parameters(source: type, twin: type) -> None:
    for name in members(source):
        original, made = getattr(source, name), getattr(twin, RENAMED.get(name, name), None)
        assert made is not None, f"{source.__name__}.{name} has no blocking twin"
        if callable(original):
            assert parameters(original) == parameters(made), name
            assert not inspect.iscoroutinefunction(made), name


@pytest.mark.parametrize("twin", [twin for _, twin in classes()], ids=lambda each: each.__name__)
def test_its_words_are_for_those_who_block(twin: type) -> None:
    for owner in (twin, *(value for name, value in vars(twin).items() if not name.startswith("_"))):
        words = inspect.getdoc(owner) or ""
        assert "await " not in words, owner
        assert "async" not in words, owner


def test_other_names_of_a_class_are_other_names_of_its_twin() -> None:
    assert blocking.Templates is blocking.Template is not opencomputer.Template


def test_a_client_whose_constructor_is_inherited_is_made_and_entered_as_itself() -> None:
    with blocking.Usage("a-key", "http://127.0.0.1:1") as usage:
        assert type(usage) is blocking.Usage


def test_the_facade_is_made_from_the_sdk_as_it_is() -> None:
    script = REPOSITORY / "scripts/generate_blocking.py"
    checked = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout + checked.stderr
