"""What the fields of the shapes mean: the text below each field, where it is defined."""

from __future__ import annotations

import ast
import inspect
import pkgutil
from collections.abc import Iterator, Mapping
from importlib import import_module
from itertools import pairwise

from pydantic import BaseModel

import opencomputer.wire


def field_meanings() -> Mapping[tuple[str, str], str]:
    """By the name of the shape and that of the field on the wire; inherited fields included."""
    found: dict[tuple[str, str], str] = {}
    own: dict[type[BaseModel], Mapping[str, str]] = {}
    for model in _models():
        for kind in inspect.getmro(model):
            if not issubclass(kind, BaseModel) or kind is BaseModel:
                continue
            if kind not in own:
                own[kind] = dict(_texts(kind)) if kind.__module__.startswith("opencomputer.wire.") else {}
            for attribute, text in own[kind].items():
                field = model.model_fields[attribute]
                found.setdefault((model.__name__, field.alias or attribute), text)
    return found


def _models() -> Iterator[type[BaseModel]]:
    for each in pkgutil.iter_modules(opencomputer.wire.__path__, "opencomputer.wire."):
        for value in vars(import_module(each.name)).values():
            if isinstance(value, type) and issubclass(value, BaseModel) and value.__module__ == each.name:
                yield value


def _texts(model: type[BaseModel]) -> Iterator[tuple[str, str]]:
    tree = ast.parse(inspect.getsource(import_module(model.__module__)))
    defined = {each.name: each for each in tree.body if isinstance(each, ast.ClassDef)}
    # Those of a generic shape are of the shape without its brackets, which may be somebody else's.
    definition = defined.get(model.__name__.partition("[")[0])
    if definition is None:
        return
    for statement, following in pairwise(definition.body):
        match statement, following:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                yield name, text
            case _:
                pass
