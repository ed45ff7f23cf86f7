"""What a command on the wire means as an argument list (behaviour 8.2, decision D7)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePosixPath

from opencomputer.server.domain.errors import InvalidInput

_SHELLS = frozenset({"ash", "bash", "dash", "fish", "ksh", "mksh", "sh", "zsh"})
_PLAIN_WORD = re.compile(r"[A-Za-z0-9_@%+:,./-]+")


def resolve_command(command: str, arguments: Sequence[str] | None) -> tuple[str, ...]:
    """With arguments, or as one plain word, a command is executed directly; otherwise by `/bin/sh -c`."""
    for word in (command, *(arguments or ())):
        if "\0" in word:
            raise InvalidInput("cmd and args must not contain NUL", field="cmd")
    if arguments:
        return (command, *arguments)
    if _PLAIN_WORD.fullmatch(command):
        return (command,)
    return ("/bin/sh", "-c", command)


def login_shell(shell: str | None) -> tuple[str, ...]:
    """The program of a terminal: the shell that was asked for, else bash where there is one, else sh."""
    if shell is None:
        return ("/bin/sh", "-c", "test -x /bin/bash && exec /bin/bash -l; exec /bin/sh -l")
    if not shell or "\0" in shell:
        raise InvalidInput("shell must be a path without NUL", field="shell")
    # Only a shell knows the option; anything else may be run on a terminal just as well.
    return (shell, "-l") if PurePosixPath(shell).name in _SHELLS else (shell,)


def check_directory(path: str | None) -> None:
    if path is not None and (not path or "\0" in path):
        raise InvalidInput("cwd must be a path without NUL", field="cwd")
