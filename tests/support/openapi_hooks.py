"""What schemathesis is told of our API: loaded by its command with `SCHEMATHESIS_HOOKS`.

On the fake driver machines are this host. So programs get names that no program has, and paths stay below a
sandbox's home. `OPENCOMPUTER_FUZZ_IDS` may have ids, as JSON by the end of the path up to them
(`/{sandbox_id}`), that stand in for some of those that are made up.
"""

from __future__ import annotations

import io
import json
import os
import zipfile
from collections.abc import Callable, Mapping
from typing import Any, cast

import schemathesis

_RUNS = frozenset({"cmd", "shell", "script"})
_KNOWN: Mapping[str, str] = json.loads(os.environ.get("OPENCOMPUTER_FUZZ_IDS", "{}"))
_LONG = 6
_hook = cast("Callable[[Callable[..., object]], object]", schemathesis.hook)  # pyright: ignore[reportUnknownMemberType]


@_hook
def map_body(_context: object, body: object) -> object:
    return harmless(body)


@_hook
def map_query(_context: object, query: object) -> object:
    if isinstance(query, dict):
        given = cast("dict[str, Any]", query)
        if isinstance(path := given.get("path"), str):
            return {**given, "path": f"any/{path.replace('..', '')}"}
    return cast("object", query)


@_hook
def map_path_parameters(context: Any, parameters: object) -> object:
    # Whoever ends what all others are about comes too early.
    if not isinstance(parameters, dict) or _ends(context.operation):
        return cast("object", parameters)
    given = cast("dict[str, object]", parameters)
    path = context.operation.path
    return {
        name: _known(path, name, value) if len(str(value)) < _LONG else value for name, value in given.items()
    }


def _known(path: str, name: str, otherwise: object) -> object:
    parameter = f"{{{name}}}"
    up_to_it = path.partition(parameter)[0] + parameter
    return next((id for end, id in _KNOWN.items() if up_to_it.endswith(end)), otherwise)


def _ends(operation: Any) -> bool:
    return operation.method.upper() == "DELETE" and operation.path.endswith(tuple(_KNOWN))


def harmless(value: object) -> object:
    """The same value, with nothing in it that would run on this host."""
    if isinstance(value, list):
        return [harmless(each) for each in cast("list[object]", value)]
    if not isinstance(value, dict):
        return value
    return {name: _tamed(name, each) for name, each in cast("dict[str, object]", value).items()}


def _tamed(name: str, value: object) -> object:
    if name in _RUNS and isinstance(value, str):
        return f"no-such-{value.replace('/', '-')}"
    return harmless(value)


@schemathesis.check
def failures_are_documented(_context: object, response: Any, case: Any) -> None:
    """A status from 500 on is no answer, unless the document names that very status for this route."""
    documented: Mapping[str, object] = case.operation.definition.raw["responses"]
    if response.status_code >= 500 and str(response.status_code) not in documented:
        raise AssertionError(f"{response.status_code} is not documented for {case.method} {case.path}")


@schemathesis.check
def allow_names_every_method(_context: object, response: Any, case: Any) -> None:
    """What refuses a method says which ones there are: all that the document has for this path."""
    if response.status_code != 405:
        return
    allowed = {each.strip() for each in ",".join(response.headers["allow"]).split(",")}
    item: Mapping[str, object] = case.operation.schema.raw_schema["paths"][case.path]
    documented = {each.upper() for each in item} - {"PARAMETERS", "SUMMARY", "DESCRIPTION"}
    if missing := documented - allowed:
        raise AssertionError(f"Allow of {case.path} does not name {', '.join(sorted(missing))}")


@schemathesis.serializer("application/zip")
def zip_of(_context: object, value: object) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("SKILL.md", str(value))
    return content.getvalue()
