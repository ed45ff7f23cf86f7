"""The source tree as the tests of this folder see it: files, modules and who imports whom."""

from __future__ import annotations

import ast
import functools
import gc
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
SOURCE = REPOSITORY / "src"
PACKAGE = "opencomputer"


@dataclass(frozen=True)
class Import:
    """One import of a module of ours. `lazy` when it is inside a function."""

    importer: str
    imported: str
    line: int
    lazy: bool

    def __str__(self) -> str:
        return f"{self.importer}:{self.line} imports {self.imported}"


def python_files(*folders: str) -> Iterator[Path]:
    for folder in folders:
        yield from sorted((REPOSITORY / folder).rglob("*.py"))


def module_name(file: Path) -> str:
    parts = file.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@functools.cache
def parse(file: Path) -> ast.Module:
    with uncollected():
        return ast.parse(file.read_text(), str(file))


@contextmanager
def uncollected() -> Generator[None]:
    """Without the collector, which would look through so many new objects again and again."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


@functools.cache
def modules() -> dict[str, Path]:
    return {module_name(file): file for file in python_files("src/opencomputer")}


@functools.cache
def imports() -> tuple[Import, ...]:
    """Every import of ours, those for type checking included."""
    return tuple(found for name, file in modules().items() for found in _imports_of(name, file))


def _imports_of(name: str, file: Path) -> Iterator[Import]:
    package = name if file.name == "__init__.py" else name.rpartition(".")[0]
    for node, lazy in _statements(parse(file), lazy=False):
        for target in _targets(node, package):
            if target.split(".")[0] == PACKAGE:
                yield Import(name, target, getattr(node, "lineno", 0), lazy)


def _statements(node: ast.AST, *, lazy: bool) -> Iterator[tuple[ast.AST, bool]]:
    """All that is below, and whether it is inside a function."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.expr):
            yield child, lazy
            is_function = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)
            yield from _statements(child, lazy=lazy or is_function)


def _targets(node: ast.AST, package: str) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if not isinstance(node, ast.ImportFrom):
        return []
    base = node.module or ""
    if node.level:
        above = package.split(".")[: len(package.split(".")) - node.level + 1]
        base = ".".join([*above, base]) if base else ".".join(above)
    # `from package import module` names the module, `from module import name` does not.
    return [f"{base}.{alias.name}" if f"{base}.{alias.name}" in modules() else base for alias in node.names]
