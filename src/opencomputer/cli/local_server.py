"""What the commands about this machine's own server have in common."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from opencomputer.cli.failures import CommandError

_HOW_TO_INSTALL = "the server is not installed here; `pip install 'opencomputer-sdk[server]'` installs it"


@contextmanager
def local_server() -> Generator[None]:
    """Around the code that loads and uses the server: says how to install one that is not there."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise CommandError(f"{_HOW_TO_INSTALL} (missing: {error.name})") from error
    except PermissionError as error:
        raise CommandError(f"no permission for {error.filename or 'this'}; try it as root") from error
