"""Files stay short, functions shorter. Exceptions are written down with their size, and only shrink."""

from __future__ import annotations

import ast
import functools
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.architecture.tree import REPOSITORY, python_files, uncollected

_FOLDERS = ("src", "bench", "scripts", "tests")
_FILE_LINES = 400
_FUNCTION_LINES = 40
_PARAMETERS = 5

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Measured:
    """A function under its full name."""

    name: str
    lines: int
    parameters: int


def _name(file: Path) -> str:
    return str(file.relative_to(REPOSITORY))


def _is_written(file: Path) -> bool:
    """What is generated has the signatures of what it is made from, where they are counted."""
    return not file.read_text().startswith("# Generated from ")


@functools.cache
def _functions(file: Path) -> tuple[Measured, ...]:
    """Its tree is let go of: those of all files together are so many objects that everything becomes slow."""

    def walk(node: ast.AST, prefix: str) -> Iterator[Measured]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                continue
            named = isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
            path = f"{prefix}.{getattr(child, 'name', '')}" if named else prefix
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                yield Measured(path.lstrip("."), _lines(child), _parameters(child))
            yield from walk(child, path)

    with uncollected():
        return tuple(walk(ast.parse(file.read_text(), str(file)), ""))


def _lines(function: Function) -> int:
    """Lines of a function without its docstring and decorators."""
    assert function.end_lineno is not None
    lines = function.end_lineno - function.lineno + 1
    if ast.get_docstring(function) is not None:
        first = function.body[0]
        assert first.end_lineno is not None
        lines -= first.end_lineno - first.lineno + 1
    return lines


def _parameters(function: Function) -> int:
    arguments = function.args
    named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    return len([each for each in named if each.arg not in ("self", "cls")])


def long_files() -> dict[str, int]:
    sizes = {_name(file): len(file.read_text().splitlines()) for file in python_files(*_FOLDERS)}
    return {name: size for name, size in sizes.items() if size > _FILE_LINES}


def long_functions() -> dict[str, int]:
    return {
        f"{_name(file)}::{function.name}": function.lines
        for file in python_files(*_FOLDERS)
        if _is_written(file)
        for function in _functions(file)
        if function.lines > _FUNCTION_LINES
    }


def wide_functions() -> dict[str, int]:
    return {
        f"{_name(file)}::{function.name}": function.parameters
        for file in python_files("src", "bench", "scripts")
        if _is_written(file)
        for function in _functions(file)
        if function.parameters > _PARAMETERS
    }


@pytest.mark.parametrize(
    ("budget", "measure"),
    [("file_lines", long_files), ("function_lines", long_functions), ("parameters", wide_functions)],
)
def test_a_budget_is_passed_only_where_that_is_written_down(
    budget: str, measure: Callable[[], dict[str, int]]
) -> None:
    """Equality on purpose: what got worse is repaired, what got better is written down as better."""
    exceptions = tomllib.loads((Path(__file__).parent / "exceptions.toml").read_text())
    assert measure() == exceptions[budget]
