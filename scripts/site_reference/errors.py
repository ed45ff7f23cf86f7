"""Every code that a refusal can have, from the tree of errors."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator

import httpx

import opencomputer.server
from opencomputer.sdk.errors import error_from
from opencomputer.server.domain.errors import OpenComputerError
from opencomputer.server.http.errors import status_of
from opencomputer.server.http.session_api.errors import code_of
from site_reference.tables import code, table

_HEAD = """# Error codes

Programs decide by `code`; the text beside it is for people and may change. A refusal of `/api` is
`{"error": "…", "code": "…"}`, one of `/v3` is `{"error": {"code": "…", "message": "…"}}`. The column *again*
says that the same request may succeed a moment later; `Retry-After` tells when. The Python SDK raises the
class in the last column, with `.code`, `.status` and `.message`.
"""


def page() -> str:
    rows = [
        (
            code(each.code),
            code(code_of(each())) if code_of(each()) != each.code else "the same",
            str(status_of(each())),
            _again(each),
            each().message,
            code(_raised(each)),
        )
        for each in kinds()
    ]
    columns = ("`code` in `/api`", "in `/v3`", "Status", "Again", "Means", "Python")
    return f"{_HEAD}\n{table(columns, rows)}"


def kinds() -> Iterator[type[OpenComputerError]]:
    """One class for each code, ordered by status and code."""
    for module in pkgutil.walk_packages(opencomputer.server.__path__, "opencomputer.server."):
        if _is_told(module.name):
            importlib.import_module(module.name)
    # Those of other modules are never told to clients.
    by_code: dict[str, type[OpenComputerError]] = {}
    for each in _with_descendants(OpenComputerError):
        if _is_told(each.__module__):
            by_code.setdefault(each.code, each)
    yield from sorted(by_code.values(), key=lambda each: (status_of(each()), each.code))


def _is_told(module: str) -> bool:
    return module.startswith(("opencomputer.server.domain.", "opencomputer.server.http."))


def _with_descendants(kind: type[OpenComputerError]) -> Iterator[type[OpenComputerError]]:
    yield kind
    for each in kind.__subclasses__():
        if each.__module__.startswith("opencomputer.server."):
            yield from _with_descendants(each)


def _again(kind: type[OpenComputerError]) -> str:
    if kind.retry_after_seconds is not None:
        return f"after {kind.retry_after_seconds} s"
    return "yes" if kind.retryable else ""


def _raised(kind: type[OpenComputerError]) -> str:
    body = {"error": "", "code": kind.code}
    request = httpx.Request("GET", "http://server")
    return type(error_from(httpx.Response(status_of(kind()), json=body, request=request))).__name__
