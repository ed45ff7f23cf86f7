"""The entry point of `oc`: arguments in, exit code out.

What a run does not need is not loaded: `oc --version` loads next to nothing, other runs the module of one
command.
"""

from __future__ import annotations

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
    for stream in (sys.stdout, sys.stderr):
        # Where the terminal's encoding lacks a character, another in its place is better than an error.
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")
    sys.exit(run(sys.argv[1:]))


def run(given: Sequence[str]) -> int:
    """Run one command and return its exit code. What went wrong has been printed."""
    prepared = arguments.prepared(given)
    if arguments.asks_for_version(prepared):
        show_version(as_json=arguments.output_flags(given).json)
        return 0
    from opencomputer.cli.root import application

    try:
        code: object = application()(prepared, prog_name=arguments.PROGRAM, standalone_mode=False)
    except (Exception, KeyboardInterrupt) as error:
        from opencomputer.cli.failures import failure_of
        from opencomputer.cli.output import Output

        failure = failure_of(error)
        if failure is None:
            raise
        wants = arguments.output_flags(given)
        Output(json=wants.json, quiet=wants.quiet, colour=wants.colour).failure(failure)
        return failure.exit_code
    return code if isinstance(code, int) else 0


def show_version(*, as_json: bool) -> None:
    """Print the version."""
    from opencomputer.sdk.version import installed_version

    version = installed_version()
    print(f'{{"version": "{version}"}}' if as_json else f"{arguments.PROGRAM} version {version}")
