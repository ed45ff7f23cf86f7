"""What is done to the arguments before the commands see them. No I/O here."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NamedTuple

PROGRAM = "oc"
COMPLETION_VARIABLE = "_OC_COMPLETE"

_FLAGS = frozenset({"--json", "--quiet", "-q", "--no-color"})
_OPTIONS = frozenset({"--api-key", "--api-url", "--sessions-api-url", "--profile"})
_HELP = frozenset({"-h", "--help"})
# Groups that do something by themselves: the verb for that, and their other verbs.
_UNSPOKEN: dict[tuple[str, ...], tuple[str, frozenset[str]]] = {
    ("exec",): ("run", frozenset({"list", "attach", "kill"})),
    ("agent", "revisions"): ("list", frozenset({"get"})),
    ("agent", "instances"): ("list", frozenset({"create", "get", "delete"})),
    ("session", "webhooks"): ("list", frozenset({"add", "rm", "deliveries", "redeliver"})),
}
# Those of them that say enough without another word.
_ALONE = (("agent", "revisions"),)
# `oc cp` copies, and is short for `oc checkpoint` before one of its verbs, unless a sandbox's file is named.
_CHECKPOINT_VERBS = frozenset({"create", "list", "ls", "restore", "delete", "spawn", "publish", "unpublish"})


def prepared(arguments: Sequence[str]) -> list[str]:
    """The arguments with global options first, and short forms written out.

    `oc help X` asks for the help of X, and `oc exec SANDBOX …` runs something in it.
    """
    first, rest = _global_options_first(arguments)
    if not rest:
        rest = ["--help"]
    elif rest[0] == "help":
        rest = [*rest[1:], "--help"]
    elif rest[0] == "cp" and _CHECKPOINT_VERBS.intersection(rest[1:2]) and not any(map(_names_a_file, rest)):
        rest = ["checkpoint", *rest[1:]]
    return [*first, *_spoken(rest)]


def _spoken(rest: list[str]) -> list[str]:
    for group, (verb, others) in _UNSPOKEN.items():
        after = rest[len(group) :]
        if tuple(rest[: len(group)]) != group or not (after or group in _ALONE):
            continue
        if not {verb, *others, *_HELP}.intersection(after[:1]):
            return [*group, verb, *after]
    return rest


def _names_a_file(argument: str) -> bool:
    return argument.startswith("sb-") and ":" in argument


class OutputFlags(NamedTuple):
    """How even a usage error is to be printed."""

    json: bool
    quiet: bool
    colour: bool


def output_flags(arguments: Sequence[str]) -> OutputFlags:
    """What the arguments say about output, whether or not the rest of them makes sense."""
    first, _ = _global_options_first(arguments)
    return OutputFlags("--json" in first, bool({"--quiet", "-q"} & set(first)), "--no-color" not in first)


def asks_for_version(prepared: Sequence[str]) -> bool:
    """Whether nothing but the version is wanted, global options aside."""
    return list(prepared[-1:]) == ["--version"] and not _global_options_first(prepared[:-1])[1]


def is_completing() -> bool:
    """Whether this run answers a shell that completes a line, or wants the script for it."""
    return COMPLETION_VARIABLE in os.environ


def _global_options_first(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    first: list[str] = []
    rest: list[str] = []
    remaining = list(arguments)
    while remaining:
        argument = remaining.pop(0)
        if argument == "--":
            rest += [argument, *remaining]
            break
        if argument in _FLAGS or (argument.partition("=")[0] in _OPTIONS and "=" in argument):
            first.append(argument)
        elif argument in _OPTIONS and remaining:
            first += [argument, remaining.pop(0)]
        else:
            rest.append(argument)
    return first, rest
