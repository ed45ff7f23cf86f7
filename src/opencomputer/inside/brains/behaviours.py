"""What the scripted engine can be told to do: programs of steps, chosen by the name of the model.

A step is an object with one member of `STEPS`. In its texts `{{input}}` is what was said to the agent now,
`{{result}}` what the last tool returned, `{{memory}}` everything that was said to it so far, one line each.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

Step = Mapping[str, Any]

MAX_PROGRAM_STEPS = 10_000
STEPS: Mapping[str, type | tuple[type, ...]] = {
    "narrate": str,
    "think": str,
    "say": str,
    "ask": str,
    "bash": str,
    "tool": str,
    "sleep": (int, float),
    "crash": str,
    "hang": bool,
    "fail": str,
}
"""Each step's name and the type of its value. `tool` has `arguments` beside it, `fail` has `code`."""

KILOBYTE_LINE = "0123456789abcdef" * 63 + "0123456789abcde"


class BadProgram(Exception):
    """There is no such behaviour, or the input is no program."""


@dataclass(frozen=True)
class Occasion:
    """What a behaviour may depend on. `asked`: the turn before ended with a question."""

    input: str
    argument: str
    asked: bool
    max_steps: int


def program_for(model: str, input: str, *, asked: bool, max_steps: int) -> Sequence[Step]:
    """The steps of the behaviour `model`, which may carry an argument after a colon. Raises BadProgram."""
    name, _, argument = model.partition(":")
    behaviour = BEHAVIOURS.get(name)
    if behaviour is None:
        raise BadProgram(f"there is no behaviour {name!r}; there are {', '.join(sorted(BEHAVIOURS))}")
    return behaviour(Occasion(input, argument, asked, max_steps))


def filled(text: str, values: Mapping[str, str]) -> str:
    """`text` with its placeholders replaced."""
    return re.sub(r"\{\{(\w+)\}\}", lambda match: values.get(match.group(1), match.group(0)), text)


def parse_program(text: str) -> Sequence[Step]:
    """A program that was written as JSON: an array of steps. Raises BadProgram."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadProgram(f"the input is not a program: {error}") from error
    if not isinstance(value, list):
        raise BadProgram("the input is not a program: an array of steps is expected")
    steps = cast("list[Any]", value)
    if len(steps) > MAX_PROGRAM_STEPS:
        raise BadProgram(f"a program has {MAX_PROGRAM_STEPS} steps at most")
    return [_step(step, number) for number, step in enumerate(steps)]


def _step(value: object, number: int) -> Step:
    step: Step = cast("Step", value) if isinstance(value, dict) else dict[str, Any]()
    names = [name for name in STEPS if name in step]
    if len(names) != 1 or not isinstance(step[names[0]], STEPS[names[0]]):
        raise BadProgram(f"step {number} is not one of {', '.join(STEPS)}")
    return step


def _seconds(occasion: Occasion, otherwise: float) -> float:
    try:
        return float(occasion.argument or otherwise)
    except ValueError as error:
        raise BadProgram(f"{occasion.argument!r} is not a number") from error


def _ask_then_echo(occasion: Occasion) -> Sequence[Step]:
    if occasion.asked:
        return [{"say": "{{input}}"}]
    return [{"ask": "What should I say?"}]


def _slow(occasion: Occasion) -> Sequence[Step]:
    words = [f"Working, {number} of 20." for number in range(1, 21)]
    pause = _seconds(occasion, 10) / 20
    return [step for word in words for step in ({"narrate": word}, {"sleep": pause})] + [{"say": "{{input}}"}]


def _exceed_steps(occasion: Occasion) -> Sequence[Step]:
    return [{"narrate": f"Step {number}."} for number in range(1, occasion.max_steps + 2)]


BEHAVIOURS: Mapping[str, Callable[[Occasion], Sequence[Step]]] = {
    "echo": lambda _: [{"narrate": "I repeat."}, {"say": "{{input}}"}],
    "narrate": lambda _: [{"narrate": "{{input}}"}],
    "recall": lambda _: [{"say": "{{memory}}"}],
    "ask-then-echo": _ask_then_echo,
    "run": lambda _: [{"bash": "{{input}}"}, {"say": "{{result}}"}],
    "output": lambda _: [{"bash": f"yes {KILOBYTE_LINE} | head -n 100"}, {"say": "There it is."}],
    "crash-once": lambda _: [{"narrate": "I begin."}, {"crash": "once"}, {"say": "{{input}}"}],
    "crash": lambda _: [{"crash": "always"}],
    "hang": lambda _: [{"narrate": "I begin."}, {"hang": True}],
    "slow": _slow,
    "exceed-steps": _exceed_steps,
    "fail": lambda occasion: [{"fail": "The model refused.", "code": occasion.argument or "model_error"}],
    "program": lambda occasion: parse_program(occasion.input),
}
