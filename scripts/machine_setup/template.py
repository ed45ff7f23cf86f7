"""The base template and the runtime, made by the project's own code in the project's own environment."""

from __future__ import annotations

from pathlib import Path

from machine_setup.steps import Display, run_program

_FIX = "Read the messages above and the log; `oc doctor` says whether mirrors and disk space are the reason."
_RESULT = "done: "


def build_template(checkout: Path, display: Display) -> str:
    return _run(checkout, "template", display)


def build_runtime(checkout: Path, display: Display) -> str:
    return _run(checkout, "runtime", display)


def _run(checkout: Path, what: str, display: Display) -> str:
    lines = run_program(
        [str(checkout / ".venv/bin/python"), str(checkout / "scripts/build_template.py"), what],
        display,
        show=phase,
        fix=_FIX,
    )
    return next((line.removeprefix(_RESULT) for line in reversed(lines) if line.startswith(_RESULT)), "ready")


def phase(line: str) -> str | None:
    """What the display should say about a line of the build: its phases, not every package."""
    if line.startswith("I: "):
        return line.removeprefix("I: ")
    if line.startswith("> "):
        return line.removeprefix("> ")
    return None
