"""What a command on the wire means as an argument list (behaviour 8.2, decision D7)."""

from __future__ import annotations

import re
from collections.abc import Sequence

from opencomputer.server.domain.errors import InvalidInput

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


def check_directory(path: str | None) -> None:
    if path is not None and (not path or "\0" in path):
        raise InvalidInput("cwd must be a path without NUL", field="cwd")
