"""The asynchronous SDK as text: its modules, their names, their classes and what each class offers."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import cached_property
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2] / "src"
PACKAGE = "opencomputer.sdk"

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Name:
    """Something by the module that defines it; the module itself where `name` is empty."""

    module: str
    name: str = ""


class Kind(Enum):
    """What a member of a class is."""

    METHOD = auto()
    CLASS_METHOD = auto()
    STATIC_METHOD = auto()
    PROPERTY = auto()
    CACHED_PROPERTY = auto()
    ALIAS = auto()


@dataclass(frozen=True)
class Member:
    """One member. `node` is there for functions; `type` for what is read; `target` for an alias."""

    name: str
    kind: Kind
    doc: str = ""
    node: Function | None = None
    type: ast.expr | None = None
    target: str = ""

    @property
    def returns(self) -> ast.expr | None:
        """What one gets from it."""
        return self.node.returns if self.node is not None else self.type

    @property
    def is_async(self) -> bool:
        """It is awaited, or iterated with `async for`."""
        return isinstance(self.node, ast.AsyncFunctionDef)

    @property
    def yields(self) -> bool:
        """It is an asynchronous generator."""
        return self.node is not None and any(isinstance(each, ast.Yield) for each in ast.walk(self.node))


@dataclass(frozen=True)
class Class:
    """A class and its members in the order of the text, attributes that `__init__` sets included."""

    where: Name
    node: ast.ClassDef = field(repr=False, compare=False)

    @property
    def doc(self) -> str:
        return ast.get_docstring(self.node) or ""

    @cached_property
    def members(self) -> dict[str, Member]:
        found = {member.name: member for member in _members(self.node)}
        constructor = found.get("__init__")
        attributes = _attributes(constructor.node) if constructor and constructor.node else []
        return {member.name: member for member in attributes if member.name not in found} | found


@dataclass(frozen=True)
class Module:
    """One module and what its names stand for."""

    name: str
    tree: ast.Module = field(repr=False, compare=False)

    @cached_property
    def classes(self) -> dict[str, Class]:
        nodes = [node for node in self.tree.body if isinstance(node, ast.ClassDef)]
        return {node.name: Class(Name(self.name, node.name), node) for node in nodes}

    @cached_property
    def aliases(self) -> dict[str, str]:
        """Other names of its classes."""
        found: dict[str, str] = {}
        for node in self.tree.body:
            match node:
                case ast.Assign(targets=[ast.Name(id=name)], value=ast.Name(id=target)):
                    found[name] = target
                case _:
                    pass
        return {name: target for name, target in found.items() if target in self.classes}

    @cached_property
    def functions(self) -> dict[str, Member]:
        nodes = [node for node in self.tree.body if isinstance(node, Function)]
        return {
            node.name: Member(node.name, Kind.STATIC_METHOD, ast.get_docstring(node) or "", node)
            for node in nodes
        }

    @cached_property
    def names(self) -> dict[str, Name]:
        """What is known by a name at the top of the module, imports for type checking included."""
        known: dict[str, Name] = {}
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                known |= {each.asname or each.name: Name(each.name) for each in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                known |= {each.asname or each.name: Name(node.module, each.name) for each in node.names}
        for node in self.tree.body:
            known |= {name: Name(self.name, name) for name in _defined(node)}
        return known


class Tree:
    """All modules of the SDK."""

    def __init__(self) -> None:
        files = sorted((SOURCE / PACKAGE.replace(".", "/")).rglob("*.py"))
        modules = [Module(_module_name(file), ast.parse(file.read_text())) for file in files]
        self.modules = {module.name: module for module in modules}

    def find(self, where: Name) -> Class | None:
        """The class of this name, if it is one of the SDK's."""
        module = self.modules.get(where.module)
        return module.classes.get(where.name) if module else None

    def mentioned(self, module: Module, annotation: ast.expr | None) -> Iterator[Name]:
        """Everything that an annotation names."""
        for node in ast.walk(annotation) if annotation is not None else ():
            if isinstance(node, ast.Name) and node.id in module.names:
                yield module.names[node.id]
            elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                base = module.names.get(node.value.id)
                if base is not None:
                    yield Name(f"{base.module}.{base.name}" if base.name else base.module, node.attr)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield from self.mentioned(module, ast.parse(node.value, mode="eval").body)


def parameters(node: Function) -> list[ast.arg]:
    """All parameters but `self` and `cls`."""
    arguments = node.args
    named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    return [each for each in named if each.arg not in ("self", "cls")]


def _module_name(file: Path) -> str:
    parts = file.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _defined(node: ast.stmt) -> list[str]:
    match node:
        case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            return [name]
        case ast.Assign(targets=targets):
            return [each.id for each in targets if isinstance(each, ast.Name)]
        case ast.AnnAssign(target=ast.Name(id=name)):
            return [name]
        case ast.If(body=body):
            return [name for inner in body for name in _defined(inner)]
        case _:
            return []


def _members(node: ast.ClassDef) -> Iterator[Member]:
    for index, item in enumerate(node.body):
        match item:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                yield Member(item.name, _kind(item), ast.get_docstring(item) or "", item)
            case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation):
                yield Member(name, Kind.PROPERTY, _doc_after(node.body, index), type=annotation)
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Name(id=target)):
                yield Member(name, Kind.ALIAS, _doc_after(node.body, index), target=target)
            case _:
                pass


def _kind(node: Function) -> Kind:
    kinds = {
        "classmethod": Kind.CLASS_METHOD,
        "staticmethod": Kind.STATIC_METHOD,
        "property": Kind.PROPERTY,
        "cached_property": Kind.CACHED_PROPERTY,
    }
    named = [each.id for each in node.decorator_list if isinstance(each, ast.Name)]
    return next((kinds[name] for name in named if name in kinds), Kind.METHOD)


def _attributes(constructor: Function) -> list[Member]:
    """The attributes that a constructor sets, as far as their types can be read from it."""
    types = {each.arg: each.annotation for each in parameters(constructor)}
    found: list[Member] = []
    for index, item in enumerate(constructor.body):
        match item:
            case ast.Assign(targets=[ast.Attribute(value=ast.Name(id="self"), attr=name)], value=value):
                match value:
                    case ast.Name(id=parameter) if parameter in types:
                        type = types[parameter]
                    case ast.Call(func=ast.Name() as called):
                        type = called
                    case _:
                        type = None
            case ast.AnnAssign(
                target=ast.Attribute(value=ast.Name(id="self"), attr=name), annotation=annotation
            ):
                type = annotation
            case _:
                continue
        found.append(Member(name, Kind.PROPERTY, _doc_after(constructor.body, index), type=type))
    return found


def _doc_after(body: list[ast.stmt], index: int) -> str:
    following = body[index + 1] if index + 1 < len(body) else None
    match following:
        case ast.Expr(value=ast.Constant(value=str(text))):
            return text
        case _:
            return ""
