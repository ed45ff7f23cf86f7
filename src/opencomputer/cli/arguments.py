"""What is done to the arguments before the commands see them. No I/O here."""

from __future__ import annotations

from collections.abc import Sequence

_FLAGS = frozenset({"--json", "--no-color"})
_OPTIONS = frozenset({"--api-key", "--api-url", "--sessions-api-url"})
_SESSION_VERBS = frozenset({"list", "attach", "kill", "run"})
_HELP = frozenset({"-h", "--help"})


def prepared(arguments: Sequence[str]) -> list[str]:
    """The arguments with global options first, and short forms written out.

    `oc help X` asks for the help of X, and `oc exec SANDBOX …` runs something in it.
    """
    first, rest = _global_options_first(arguments)
    if not rest:
        rest = ["--help"]
    elif rest[0] == "help":
        rest = [*rest[1:], "--help"]
    elif rest[0] == "exec" and len(rest) > 1 and rest[1] not in _SESSION_VERBS | _HELP:
        rest = ["exec", "run", *rest[1:]]
    return [*first, *rest]


def wants_json(arguments: Sequence[str]) -> bool:
    """Whether even a usage error is to be printed as JSON."""
    return "--json" in _global_options_first(arguments)[0]


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
