"""The Python SDK: every public name, by looking at it."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from types import ModuleType
from typing import Any

import opencomputer
from opencomputer import durable, hosted
from site_reference.tables import code, table

_HEAD = """# Python SDK

`from opencomputer import Sandbox`; [the guide](../guides/python-sdk.md) tells how to install it. Everything
here is typed, and what does I/O is asynchronous. The records of durable sessions are in
`opencomputer.durable`, those of hosted agents in `opencomputer.hosted`. Programs without an event loop import
the same names from `opencomputer.blocking`, and leave out every `await`.
"""
_LONG = 96


def page() -> str:
    parts = [_HEAD]
    modules = (opencomputer, durable, hosted)
    for title, module in ((each.__name__, each) for each in modules):
        parts += [f"## {title}", ""]
        entries = list(names(module))
        parts += [entry for name, value in entries if (entry := _entry(name, value)) and not _is_error(value)]
        errors = [(code(name), _said(value)) for name, value in entries if _is_error(value)]
        if errors:
            parts += ["### Errors", "", table(("Error", "Means"), errors)]
    return "\n".join(parts)


def names(module: ModuleType) -> Iterator[tuple[str, Any]]:
    """What a module offers, in the order of its names."""
    for name in sorted(module.__all__):
        value = getattr(module, name)
        if inspect.isclass(value) or inspect.isroutine(value):
            yield name, value


def _is_error(value: Any) -> bool:
    return inspect.isclass(value) and issubclass(value, Exception)


def _entry(name: str, value: Any) -> str:
    if not inspect.isclass(value):
        return f"### {name}\n\n{_signature(name, value)}\n\n{_said(value)}\n"
    parts = [f"### {name}", "", _said(value), ""]
    if is_dataclass(value) or hasattr(value, "__pydantic_fields__"):
        parts += [_fields(value)]
    for method, function in _methods(value):
        parts += [
            f"#### {name}.{method} {{ .method }}",
            "",
            _signature(method, function),
            "",
            _said(function),
            "",
        ]
    return "\n".join(parts)


def _fields(value: Any) -> str:
    return table(
        ("Field", "Type"),
        ((code(each.name), code(str(each.type))) for each in fields(value) if not each.name.startswith("_")),
    )


def _methods(value: Any) -> Iterator[tuple[str, Any]]:
    """Methods and properties of a class that are its own or its bases' of ours."""
    seen: set[str] = set()
    for kind in inspect.getmro(value):
        if not kind.__module__.startswith("opencomputer."):
            continue
        members: dict[str, Any] = dict(vars(kind))
        for name, found in members.items():
            if name.startswith("_") or name in seen:
                continue
            member: Any = getattr(found, "__func__", found)
            if inspect.isfunction(member) or isinstance(member, property):
                seen.add(name)
                yield name, member


def _signature(name: str, value: Any) -> str:
    if isinstance(value, property):
        returned = inspect.signature(value.fget).return_annotation if value.fget else ""
        return f"```text\n{name}: {returned}\n```"
    signature = inspect.signature(value)
    given = [each for each in signature.parameters.values() if each.name not in ("self", "cls")]
    await_ = "await " if inspect.iscoroutinefunction(value) else ""
    words = _parameters(given)
    returned = (
        "" if signature.return_annotation is inspect.Signature.empty else str(signature.return_annotation)
    )
    line = f"{await_}{name}({', '.join(words)})" + (f" -> {returned}" if returned else "")
    if len(line) > _LONG:
        inner = "".join(f"    {each},\n" for each in words)
        line = f"{await_}{name}(\n{inner})" + (f" -> {returned}" if returned else "")
    return f"```text\n{line}\n```"


def _parameters(given: list[inspect.Parameter]) -> list[str]:
    words: list[str] = []
    for each in given:
        keyword = each.kind is inspect.Parameter.KEYWORD_ONLY
        if keyword and "*" not in words and not any(word.startswith("*") for word in words):
            words.append("*")
        text = str(each.replace(annotation=inspect.Parameter.empty, default=inspect.Parameter.empty))
        if each.annotation is not inspect.Parameter.empty:
            text += f": {each.annotation}"
        if each.default is not inspect.Parameter.empty:
            text += f" = {_default(each.default)}"
        words.append(text)
    return words


def _default(value: object) -> str:
    text = repr(value)
    return "…" if text.startswith("<") else text


def _said(value: Any) -> str:
    """The docstring. Python makes one up for data classes that have none."""
    text = inspect.getdoc(value) or ""
    return "" if re.match(r"\w+\(", text) else text
