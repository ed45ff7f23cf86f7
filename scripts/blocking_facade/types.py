"""Annotations and defaults of the SDK, as they read in a blocking module."""

from __future__ import annotations

import ast
import copy
import importlib
from dataclasses import dataclass, field

from blocking_facade.selection import BY_HAND, Selection
from blocking_facade.source import Module, Name

_STREAMS = frozenset({"AsyncGenerator", "AsyncIterator"})
_SUPPORT = "opencomputer.blocking.support"


def twin_module(module: str) -> str:
    """Where the twins of a module's classes are."""
    return module.replace("opencomputer.sdk", "opencomputer.blocking", 1)


@dataclass
class Imports:
    """What a generated module needs of others: at once, or only for its annotations."""

    own: str
    now: set[Name] = field(default_factory=set[Name])
    for_types: set[Name] = field(default_factory=set[Name])

    def lines(self) -> list[str]:
        """The import statements; ruff sorts them and drops what is not used."""
        foreign = [name for name in self.for_types - self.now if name.module != self.own]
        typed = [f"    {_statement(name)}" for name in sorted(foreign, key=repr)]
        guarded = ["from typing import TYPE_CHECKING", "if TYPE_CHECKING:", *typed] if typed else []
        return [*(_statement(name) for name in sorted(self.now, key=repr)), *guarded]


class Translator(ast.NodeTransformer):
    """Reads the annotations of one module."""

    def __init__(self, selection: Selection, module: Module, imports: Imports) -> None:
        self._selection = selection
        self._module = module
        self._imports = imports

    def text(self, annotation: ast.expr | None) -> str:
        """The annotation for blocking callers."""
        if annotation is None:
            raise ValueError(f"something public in {self._module.name} has no annotation")
        return ast.unparse(self.visit(copy.deepcopy(annotation)))

    def default(self, value: ast.expr) -> ast.expr:
        """A default value; the private constant behind a name becomes its value."""
        if not isinstance(value, ast.Name):
            return value
        where = self._module.names.get(value.id)
        constant = getattr(importlib.import_module(self._module.name), value.id, None)
        if isinstance(constant, int | float | str) or constant is None:
            return ast.Constant(constant)
        if where is None:
            return value
        self._imports.now.add(where)
        return value

    def twin_of(self, annotation: ast.expr) -> Name | None:
        """The class with a twin that the annotation is, or that awaiting it gives."""
        if not isinstance(annotation, ast.Name):
            return None
        where = self._module.names.get(annotation.id)
        if where is None:
            return None
        where = self._selection.awaited_result(where) or where
        return where if where in self._selection.twins else None

    def has_twin(self, annotation: ast.expr | None) -> bool:
        """Whether a class with a twin is anywhere in it."""
        mentioned = self._selection.tree.mentioned(self._module, annotation)
        return any(each in self._selection.twins for each in mentioned)

    def is_callback(self, annotation: ast.expr | None) -> bool:
        """Whether a parameter is something to be called."""
        mentioned = self._selection.tree.mentioned(self._module, annotation)
        return any(each.name.endswith("Callback") or each.name == "Callable" for each in mentioned)

    def visit_Name(self, node: ast.Name) -> ast.expr:
        where = self._module.names.get(node.id)
        if where is None:
            return node
        awaited = self._selection.awaited_result(where)
        if awaited is not None:
            where = awaited
        if where.name == "AsyncIterable":
            where = Name("collections.abc", "Iterable")
        if where in BY_HAND:
            where = Name(BY_HAND[where], where.name)
        elif where in self._selection.twins:
            where = Name(twin_module(where.module), where.name)
        self._imports.for_types.add(where)
        return ast.Name(where.name or where.module)

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        if ast.unparse(node) == "asyncio.Future":
            self._imports.for_types.add(Name("concurrent.futures", "Future"))
            return ast.Name("Future")
        return self.generic_visit(node)  # pyright: ignore[reportReturnType]

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        if isinstance(node.value, str):
            return self.visit(ast.parse(node.value, mode="eval").body)
        return node

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        if isinstance(node.value, ast.Name) and node.value.id == "Literal":
            self._imports.for_types.add(Name("typing", "Literal"))
            return node
        if not (isinstance(node.value, ast.Name) and node.value.id in _STREAMS):
            return self.generic_visit(node)  # pyright: ignore[reportReturnType]
        self._imports.now.add(Name(f"{_SUPPORT}.stream", "Stream"))
        items = node.slice.elts[0] if isinstance(node.slice, ast.Tuple) else node.slice
        return ast.Subscript(ast.Name("Stream"), self.visit(items))


def is_stream(annotation: ast.expr | None) -> bool:
    """Whether it is what `async for` takes."""
    match annotation:
        case ast.Subscript(value=ast.Name(id=name)):
            return name in _STREAMS
        case _:
            return False


def is_future(annotation: ast.expr | None) -> bool:
    """Whether it is a future of asyncio."""
    match annotation:
        case ast.Subscript(value=value):
            return ast.unparse(value) == "asyncio.Future"
        case _:
            return False


def _statement(where: Name) -> str:
    if where.name:
        return f"from {where.module} import {where.name}"
    return f"import {where.module}"
