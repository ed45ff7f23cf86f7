"""The names, parameters and defaults that the contract of the Python SDK promises, row by row.

A signature here is the beginning of ours: what comes after it has a default.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import textwrap
from collections.abc import Callable, Mapping
from typing import Any

import pytest

import opencomputer
from tests.unit.sdk.contract_table import COROUTINES, EXPORTS, FIELDS, PROPERTIES, SIGNATURES

_KEYWORD_ONLY = inspect.Parameter.KEYWORD_ONLY


def promised(signature: str) -> list[tuple[str, bool, object]]:
    """Name, whether only by keyword, and default of each parameter; `...` for no default."""
    arguments = ast.parse(f"def f{signature}: ...").body[0]
    assert isinstance(arguments, ast.FunctionDef)
    named = arguments.args
    missing = len(named.args) - len(named.defaults)
    given = [*[...] * missing, *[ast.literal_eval(each) for each in named.defaults]]
    positional = [(each.arg, False, default) for each, default in zip(named.args, given, strict=True)]
    keyword = [
        (each.arg, True, ... if default is None else ast.literal_eval(default))
        for each, default in zip(named.kwonlyargs, named.kw_defaults, strict=True)
    ]
    return [*positional, *keyword]


def found(name: str) -> Any:
    owner, _, member = name.partition(".")
    kind = getattr(opencomputer, owner)
    return getattr(kind, member) if member else kind


def kept(function: Callable[..., object]) -> list[tuple[str, bool, object]]:
    return [
        (each.name, each.kind is _KEYWORD_ONLY, ... if each.default is each.empty else each.default)
        for each in inspect.signature(function).parameters.values()
        if each.name != "self" and each.kind not in (each.VAR_KEYWORD, each.VAR_POSITIONAL)
    ]


@pytest.mark.parametrize("name", SIGNATURES)
def test_signature(name: str) -> None:
    wanted, ours = promised(SIGNATURES[name]), kept(found(name))
    positional = [each for each in wanted if not each[1]]
    assert ours[: len(positional)] == positional
    by_name: Mapping[str, object] = {each: default for each, _, default in ours}
    assert {each: by_name.get(each, "absent") for each, only, _ in wanted if only} == {
        each: default for each, only, default in wanted if only
    }
    added = [each for each in ours if each[0] not in {one[0] for one in wanted}]
    assert all(default is not ... for _, _, default in added), "an addition must be optional"


@pytest.mark.parametrize("name", [name for name in SIGNATURES if name in COROUTINES or "." in name])
def test_what_asks_the_server_is_awaited(name: str) -> None:
    function = found(name)
    waits = inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)
    assert waits == COROUTINES.get(name, True)


def set_by_constructors(kind: type) -> set[str]:
    """The attributes that objects get from the constructors of the SDK's own classes."""
    own = [
        each
        for each in kind.__mro__
        if each.__module__.startswith("opencomputer") and "__init__" in vars(each)
    ]
    sources = [textwrap.dedent(inspect.getsource(vars(each)["__init__"])) for each in own]
    nodes = [node for source in sources for node in ast.walk(ast.parse(source))]
    return {
        node.attr for node in nodes if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
    }


@pytest.mark.parametrize("owner", PROPERTIES)
def test_what_can_be_read(owner: str) -> None:
    kind = found(owner)
    known = {name for name in PROPERTIES[owner] if hasattr(kind, name)} | set_by_constructors(kind)
    assert set(PROPERTIES[owner]) - known == set()


@pytest.mark.parametrize("name", FIELDS)
def test_fields(name: str) -> None:
    fields = [each.name for each in dataclasses.fields(found(name))]
    assert fields[: len(FIELDS[name])] == list(FIELDS[name])


def test_exports() -> None:
    assert set(EXPORTS) - set(opencomputer.__all__) == set()
    assert opencomputer.Templates is opencomputer.Template
