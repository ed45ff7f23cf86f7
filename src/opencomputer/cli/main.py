"""The entry point of `oc`: arguments in, exit code out.

What a run does not need is not loaded: `oc --version` loads next to nothing, other runs the module of one
command.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from io import TextIOWrapper
from typing import TYPE_CHECKING, NoReturn, cast

from opencomputer.cli import arguments

if TYPE_CHECKING:
    from types import ModuleType


def main() -> NoReturn:
    """Run `oc` with the process's arguments and exit."""
    # httpx loads the parts of a command line of its own, where they are installed, and they take longer than
    # all else. It does without them when they cannot be imported.
    sys.modules["httpx._main"] = cast("ModuleType", None)
    _open_what_is_closed()
    for stream in (sys.stdout, sys.stderr):
        # Where the terminal's encoding lacks a character, another in its place is better than an error.
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")
    sys.exit(run(sys.argv[1:]))


def _open_what_is_closed() -> None:
    """Let standard streams that the caller has closed lead nowhere, and nothing else take their places."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115


def run(given: Sequence[str]) -> int:
    """Run one command and return its exit code. What went wrong has been printed."""
    prepared = arguments.prepared(given)
    try:
        code = _run_prepared(prepared, given)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        # Nobody reads on, which is nothing to tell.
        _discard_unwritten()
        return 1
    except (Exception, KeyboardInterrupt) as error:
        from opencomputer.cli.failures import failure_of
        from opencomputer.cli.output import Output

        failure = failure_of(error)
        if failure is None:
            raise
        wants = arguments.output_flags(given)
        Output(json=wants.json, quiet=wants.quiet, colour=wants.colour).failure(failure)
        _discard_unwritten()
        return failure.exit_code


def _discard_unwritten() -> None:
    """What cannot be written would fail once more at the end of the process, and spoil its exit code."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _run_prepared(prepared: list[str], given: Sequence[str]) -> int:
    if arguments.asks_for_version(prepared):
        show_version(as_json=arguments.output_flags(given).json)
        return 0
    from opencomputer.cli.root import application

    code: object = application()(prepared, prog_name=arguments.PROGRAM, standalone_mode=False)
    return code if isinstance(code, int) else 0


def show_version(*, as_json: bool) -> None:
    """Print the version."""
    from opencomputer.sdk.version import installed_version

    version = installed_version()
    print(f'{{"version": "{version}"}}' if as_json else f"{arguments.PROGRAM} version {version}")
