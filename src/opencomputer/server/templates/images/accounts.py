"""The user of sandboxes in an image's own lists of users and groups. Pure."""

from __future__ import annotations

from collections.abc import Callable

USER = "sandbox"
UID = 1000
_HOME = f"/home/{USER}"
_HOME_COLUMN = 5
_ROOT = "root:x:0:0:root:/root:/bin/sh"


def with_user(passwd: str, shell: str) -> str:
    """/etc/passwd with user 1000 called `sandbox`, as the first of that number: it names them."""
    lines = passwd.splitlines() or [_ROOT]
    if any(_is_ours(line) for line in lines):
        return _text(lines)
    ours = f"{USER}:x:{UID}:{UID}::{_HOME}:{shell}"
    return _text(_insert(lines, ours, lambda fields: len(fields) > 2 and fields[2] == str(UID)))


def with_group(group: str) -> str:
    """/etc/group with group 1000 called `sandbox`, as the first of that number."""
    lines = group.splitlines() or ["root:x:0:"]
    if any(line.split(":")[:3:2] == [USER, str(UID)] for line in lines):
        return _text(lines)
    return _text(_insert(lines, f"{USER}:x:{UID}:", lambda fields: len(fields) > 2 and fields[2] == str(UID)))


def with_shadow(shadow: str) -> str:
    """/etc/shadow with an account that has no password and never expires; programs like sudo want one."""
    lines = shadow.splitlines()
    if any(line.split(":")[0] == USER for line in lines):
        return _text(lines)
    return _text([*lines, f"{USER}:*:19000:0:99999:7:::"])


def home_of(passwd: str) -> str:
    return next(line.split(":")[_HOME_COLUMN] for line in passwd.splitlines() if _is_ours(line))


def _is_ours(line: str) -> bool:
    fields = line.split(":")
    return (
        len(fields) == 7
        and (fields[0], fields[2]) == (USER, str(UID))
        and fields[_HOME_COLUMN].startswith("/")
    )


def _insert(lines: list[str], ours: str, same_number: Callable[[list[str]], bool]) -> list[str]:
    """Before the first line of the same number, else at the end; another line of the same name goes."""
    others = [line for line in lines if line.split(":")[0] != USER]
    places = [index for index, line in enumerate(others) if same_number(line.split(":"))]
    place = places[0] if places else len(others)
    return [*others[:place], ours, *others[place:]]


def _text(lines: list[str]) -> str:
    return "\n".join(lines) + "\n"
