"""The one tree of errors: codes are stable, messages are sentences for users."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from opencomputer.server.domain.errors import OpenComputerError
from opencomputer.server.http.errors import render_error

GOLDEN = Path(__file__).parents[3] / "golden" / "errors.json"


def _tree(kind: type[OpenComputerError]) -> Iterator[type[OpenComputerError]]:
    yield kind
    for child in kind.__subclasses__():
        if child.__module__ == "opencomputer.server.domain.errors":
            yield from _tree(child)


KINDS = list(_tree(OpenComputerError))


def test_each_kind_of_error_has_a_code_of_its_own() -> None:
    codes = [kind.code for kind in KINDS]
    assert len(codes) == len(set(codes))


@pytest.mark.parametrize("kind", KINDS)
def test_the_docstring_is_the_default_message(kind: type[OpenComputerError]) -> None:
    assert kind().message == (kind.__doc__ or "").strip()
    assert kind("another").message == "another"


def test_what_a_client_sees_of_each_error_does_not_change_by_accident() -> None:
    """Clients branch on these statuses, codes and headers: a change here is a change of the API."""
    shown = {
        kind.__name__: {
            "status": answer.status_code,
            "retryAfter": answer.headers.get("retry-after"),
            "body": json.loads(bytes(answer.body)),
        }
        for kind in KINDS
        for answer in [render_error(kind())]
    }
    assert shown == json.loads(GOLDEN.read_text())
