"""Ours and the published Python SDK, name by name. What differs is written down, with the reason.

Both are asked by the same scripts, each in its own interpreter.
"""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import opencomputer
from tests.clients.environments import PUBLISHED, python_of
from tests.clients.parity_table import ADDED_OPTIONS, DIFFERENT, OTHER_ERRORS
from tests.support.fake_node import FakeNode, Rule

_SCRIPTS = PUBLISHED / "parity"
_SECONDS = 60

Surface = dict[str, Any]


def said(python: str, script: str, **environment: str) -> Any:
    """What a script prints under an interpreter that sees nothing but its own packages."""
    ran = subprocess.run(
        [python, "-I", str(_SCRIPTS / script)],
        env={"PATH": os.environ["PATH"], **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=_SECONDS,
    )
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


@pytest.fixture(scope="module")
def published() -> Surface:
    return said(str(python_of("python-sdk")), "surface.py")


@pytest.fixture(scope="module")
def ours() -> Surface:
    return said(sys.executable, "surface.py")


def differences(published: Surface, ours: Surface) -> Iterator[tuple[str, str]]:
    """What of the published SDK is not the same in ours: where, and how."""
    for name, theirs in published["classes"].items():
        mine = ours["classes"][name]
        for base in theirs["bases"]:
            if base not in mine["bases"]:
                yield name, f"is no {base}"
        if _is_record(theirs) and not _fits(theirs["fields"], mine["fields"]):
            yield name, "other fields"
        for each, member in theirs["members"].items():
            yield from ((f"{name}.{each}", how) for how in _of_member(member, mine["members"].get(each)))


def _is_record(described: Surface) -> bool:
    """Made of nothing but values: what users may make and take apart themselves."""
    return not any(member.get("async") for member in described["members"].values())


def _fits(wanted: list[list[Any]], given: list[list[Any]]) -> bool:
    """Whether what is called the one way can be called the other way, and means the same.

    Each entry ends with its default. What had none may have one now.
    """
    same = all(
        their == my or (their[-1] is None and their[:-1] == my[:-1])
        for their, my in zip(wanted, given, strict=False)
    )
    return same and len(given) >= len(wanted) and all(each[-1] is not None for each in given[len(wanted) :])


def _of_member(theirs: Surface, mine: Surface | None) -> Iterator[str]:
    if mine is None:
        yield "absent"
    elif theirs.get("read") or mine.get("read"):
        if theirs != mine:
            yield "read in one and called in the other"
    else:
        if theirs["async"] != mine["async"]:
            yield "a coroutine function in one of them only"
        if not _fits(theirs["parameters"], mine["parameters"]):
            yield "other parameters"


def options(published: Surface, ours: Surface) -> dict[str, set[str]]:
    """The parameters that only ours has, by method."""
    found: dict[str, set[str]] = {}
    for name, theirs in published["classes"].items():
        for each, member in theirs["members"].items():
            mine = ours["classes"][name]["members"].get(each, {})
            more = {one[0] for one in mine.get("parameters", ())} - {
                one[0] for one in member.get("parameters", ())
            }
            if more and not each.startswith("__"):
                found[f"{name}.{each}"] = more
    return found


def test_every_published_name_is_there(published: Surface, ours: Surface) -> None:
    assert set(published["names"]) - set(ours["names"]) == set()


def test_what_is_not_the_same_is_written_down_with_its_reason(published: Surface, ours: Surface) -> None:
    found = {f"{where}: {how}" for where, how in differences(published, ours)}
    assert found == set(DIFFERENT)
    assert all(DIFFERENT.values())


def test_options_that_are_added_are_written_down(published: Surface, ours: Surface) -> None:
    assert options(published, ours) == ADDED_OPTIONS


def test_what_is_added_says_itself_what_it_is_for(published: Surface, ours: Surface) -> None:
    """Whoever comes from the published SDK has no other place to learn of it."""
    added: dict[str, object] = {
        name: getattr(opencomputer, name) for name in ours["names"] if name not in published["names"]
    }
    for name, theirs in published["classes"].items():
        known = {*theirs["members"], *(field[0] for field in ours["classes"][name]["fields"])}
        mine = [each for each in ours["classes"][name]["members"] if each not in known]
        kind = getattr(opencomputer, name)
        added |= {f"{name}.{each}": getattr(kind, each) for each in mine if not each.startswith("__")}
    assert {where for where, value in added.items() if not inspect.getdoc(value)} == set()


def orders() -> list[Rule]:
    """How the server answers whoever runs into faults; the sandbox is the first that it makes."""
    one = "/sandboxes/sb-00000001"
    return [
        Rule("POST", f"{one}/timeout", 500, {"error": "broken"}, times=2),
        Rule("DELETE", one, 409, {"error": "busy"}),
        Rule("POST", f"{one}/scale", 403, {"error": "locked", "code": "scaling_locked"}),
        Rule("PUT", f"{one}/autoscale", 402, {"error": "too large"}),
        Rule("POST", f"{one}/scale", 403, {"error": "no", "code": "sandbox_family_scale_disabled"}),
        Rule("GET", "/secret-stores/none", 404, {"error": "there is none"}),
        Rule("DELETE", "/secret-stores/none", 404, {"error": "there is none"}),
        Rule("GET", f"{one}/autoscale", 200, "<html>", {"content-type": "text/html"}),
    ]


def raised_with(python: Path | str) -> dict[str, list[str]]:
    with FakeNode() as node:
        node.build_error = "step 1 (run) failed"
        node.rules += orders()
        return said(
            str(python), "faults.py", OPENCOMPUTER_API_URL=node.url, OPENCOMPUTER_API_KEY=node.api_key
        )


def test_whoever_catches_what_the_published_one_raises_catches_what_ours_raises() -> None:
    with ThreadPoolExecutor() as both:
        theirs, ours = both.map(raised_with, (python_of("python-sdk"), sys.executable))
    assert set(theirs) == set(ours)
    escaped = {fault: sorted(set(kinds) - set(ours[fault])) for fault, kinds in theirs.items()}
    assert {fault: kinds for fault, kinds in escaped.items() if kinds} == {
        fault: sorted(kinds) for fault, (kinds, _) in OTHER_ERRORS.items()
    }
