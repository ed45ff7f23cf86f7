"""Prints, as JSON, what the `opencomputer` of this interpreter offers: published or ours.

`{"names": [...], "classes": {name: {"bases", "fields", "members"}}}`; a member that is called has its
parameters as `[name, kind, default]`, where the default is null for none.
"""

import dataclasses
import inspect
import json
import sys

import opencomputer

SPECIAL = ("__aenter__", "__aexit__", "__aiter__", "__contains__", "__getitem__", "__init__")


def named(kind):
    top = kind.__module__.partition(".")[0]
    return f"{top}.{kind.__name__}"


def parameters_of(function):
    return inspect.signature(function).parameters


def parameters(function):
    return [
        [each.name, each.kind.name, None if each.default is each.empty else repr(each.default)]
        for each in parameters_of(function).values()
        if each.name not in ("self", "cls")
    ]


def member(owner, name):
    raw = inspect.getattr_static(owner, name)
    value = getattr(owner, name)
    if not callable(value) or isinstance(raw, property):
        return {"read": True}
    if name == "__aexit__":
        return {"parameters": [], "async": True}  # called by `async with` only, always in the same way
    is_async = inspect.iscoroutinefunction(value) or inspect.isasyncgenfunction(value)
    return {"parameters": parameters(value), "async": is_async}


def is_offered(owner, name):
    if name == "__init__":
        # Those of clients only: values are compared by field, and the rest nobody makes but the SDK.
        made = owner.__init__
        return (
            not dataclasses.is_dataclass(owner)
            and inspect.isfunction(made)
            and "api_key" in parameters_of(made)
        )
    if name.startswith("_") and name not in SPECIAL:
        return False
    giver = next(each for each in owner.__mro__ if name in vars(each))
    return giver.__module__.startswith("opencomputer")


def field(each):
    if each.default is not dataclasses.MISSING:
        return [each.name, repr(each.default)]
    made = each.default_factory
    return [each.name, None if made is dataclasses.MISSING else repr(made())]


def described(owner):
    fields = dataclasses.fields(owner) if dataclasses.is_dataclass(owner) else ()
    return {
        "bases": [named(each) for each in owner.__mro__[1:-1]],
        "fields": [field(each) for each in fields if not each.name.startswith("_")],
        "members": {name: member(owner, name) for name in dir(owner) if is_offered(owner, name)},
    }


values = {name: getattr(opencomputer, name) for name in opencomputer.__all__}
classes = {name: described(value) for name, value in values.items() if inspect.isclass(value)}
json.dump({"names": sorted(opencomputer.__all__), "classes": classes}, sys.stdout)
