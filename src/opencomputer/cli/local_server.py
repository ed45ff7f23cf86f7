"""What the commands about this machine's own server have in common."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Generator
from contextlib import contextmanager

from opencomputer.cli.arguments import PROGRAM
from opencomputer.cli.failures import CommandError
from opencomputer.cli.installation import how_to_add


@contextmanager
def local_server() -> Generator[None]:
    """Around the code that loads and uses the server: says how to install one that is not there."""
    try:
        yield
    except ModuleNotFoundError as error:
        message = f"the server is not installed here (missing: {error.name})"
        raise CommandError(message, hint=how_to_add("server")) from error
    except PermissionError as error:
        message = f"no permission for {error.filename or 'what this needs'}"
        raise CommandError(message, hint=f"as root: sudo {_own_command()}") from error


def _own_command() -> str:
    return shlex.join([PROGRAM, *sys.argv[1:]])
