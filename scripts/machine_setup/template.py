"""The base template and the runtime, made by the project's own code in the project's own environment."""

from __future__ import annotations

from pathlib import Path

from machine_setup.steps import Display, run_program

_FIX = "Read the messages above and the log; `oc doctor` says whether mirrors and disk space are the reason."
_RESULT = "done: "
_PHASE = "> "


def build_template(checkout: Path, display: Display) -> str:
    return _run(checkout, "template", display)


def build_runtime(checkout: Path, display: Display) -> str:
    return _run(checkout, "runtime", display)


def _run(checkout: Path, what: str, display: Display) -> str:
    lines = run_program(
        [str(checkout / ".venv/bin/python"), str(checkout / "scripts/build_template.py"), what],
        display,
        show=lambda line: _show(line, display),
        fix=_FIX,
    )
    return next((line.removeprefix(_RESULT) for line in reversed(lines) if line.startswith(_RESULT)), "ready")


def _show(line: str, display: Display) -> None:
    """A build marks its phases; everything else goes by."""
    if line.startswith(_PHASE):
        display.detail(line.removeprefix(_PHASE))
    else:
        display.detail(line, passing=True)
