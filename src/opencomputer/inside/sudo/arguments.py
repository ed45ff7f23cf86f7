"""What a command line of sudo asks for. Pure."""

from __future__ import annotations

RUN = "run"
EDIT = "edit"
LIST = "list"
VALIDATE = "validate"
FORGET = "forget"
VERSION = "version"
HELP = "help"

USAGE = """usage: sudo -h | -K | -k | -V
usage: sudo -v [-knS] [-u user]
usage: sudo -l [-knS] [-u user] [command]
usage: sudo [-bEHknPS] [-D directory] [-g group] [-u user] [VAR=value] [-i|-s] [command]
"""

_FLAGS = {
    "A": "askpass",
    "B": "bell",
    "b": "background",
    "E": "preserve-env",
    "e": "edit",
    "H": "set-home",
    "i": "login",
    "K": "remove-timestamp",
    "k": "reset-timestamp",
    "l": "list",
    "n": "non-interactive",
    "P": "preserve-groups",
    "S": "stdin",
    "s": "shell",
    "V": "version",
    "v": "validate",
    "N": "no-update",
    "h": "help",
}
_WITH_VALUE = {
    "C": "close-from",
    "D": "chdir",
    "g": "group",
    "p": "prompt",
    "r": "role",
    "T": "command-timeout",
    "t": "type",
    "U": "other-user",
    "u": "user",
    "R": "chroot",
}
_ACTIONS = {
    "edit": EDIT,
    "list": LIST,
    "validate": VALIDATE,
    "remove-timestamp": FORGET,
    "version": VERSION,
    "help": HELP,
}
_REFUSED = {"chroot", "role", "type"}


class UsageError(Exception):
    """The command line makes no sense."""


class Arguments:
    """A parsed command line."""

    def __init__(self) -> None:
        self.action = RUN
        self.user = "root"
        self.group: str | None = None
        self.directory: str | None = None
        self.login = False
        self.shell = False
        self.background = False
        self.set_home = False
        self.preserve = False
        self.keep: list[str] = []
        self.assignments: dict[str, str] = {}
        self.command: list[str] = []


def parse(arguments: list[str]) -> Arguments:
    """Read the arguments as sudo does: options end at the first word that is none. Raises UsageError."""
    parsed = Arguments()
    rest = list(arguments)
    names: set[str] = set()
    while rest:
        word = rest[0]
        if word == "--":
            rest.pop(0)
            break
        if word.startswith("--"):
            rest.pop(0)
            names |= _long(parsed, word[2:], rest)
        elif word.startswith("-") and len(word) > 1:
            rest.pop(0)
            names |= _short(parsed, word[1:], rest)
        elif _is_assignment(word):
            name, _, value = rest.pop(0).partition("=")
            parsed.assignments[name] = value
        else:
            break
    while rest and _is_assignment(rest[0]):
        name, _, value = rest.pop(0).partition("=")
        parsed.assignments[name] = value
    parsed.command = rest
    _conclude(parsed, names)
    return parsed


def shell_command(command: list[str]) -> str:
    """The words as one line for `sh -c`, protected as sudo does for -i and -s."""
    return " ".join(
        "".join(each if each.isalnum() or each in "_-$" else f"\\{each}" for each in word) for word in command
    )


def _long(parsed: Arguments, word: str, rest: list[str]) -> set[str]:
    name, equals, value = word.partition("=")
    if name == "preserve-env" and equals:
        parsed.keep += [each for each in value.split(",") if each]
        return set()
    if name in _WITH_VALUE.values():
        if not equals:
            value = _next(rest, f"--{name}")
        _set(parsed, name, value)
        return {name}
    if name not in _FLAGS.values() or equals:
        raise UsageError(f"unrecognized option '--{word}'")
    return {name}


def _short(parsed: Arguments, letters: str, rest: list[str]) -> set[str]:
    names: set[str] = set()
    for index, letter in enumerate(letters):
        if letter in _WITH_VALUE:
            value = letters[index + 1 :] or _next(rest, f"-{letter}")
            _set(parsed, _WITH_VALUE[letter], value)
            names.add(_WITH_VALUE[letter])
            return names
        if letter not in _FLAGS:
            raise UsageError(f"invalid option -- '{letter}'")
        names.add(_FLAGS[letter])
    return names


def _next(rest: list[str], option: str) -> str:
    if not rest:
        raise UsageError(f"option requires an argument -- '{option}'")
    return rest.pop(0)


def _set(parsed: Arguments, name: str, value: str) -> None:
    if name in _REFUSED:
        raise UsageError(f"--{name} is not supported here")
    if name == "user":
        parsed.user = value
    elif name == "group":
        parsed.group = value
    elif name == "chdir":
        parsed.directory = value


def _conclude(parsed: Arguments, names: set[str]) -> None:
    parsed.login = "login" in names
    parsed.shell = "shell" in names
    parsed.background = "background" in names
    parsed.set_home = "set-home" in names
    parsed.preserve = "preserve-env" in names
    if parsed.login and parsed.shell:
        raise UsageError("you may not specify both the '-i' and '-s' options")
    actions = [_ACTIONS[name] for name in _ACTIONS if name in names]
    if actions:
        parsed.action = actions[0]
    elif "reset-timestamp" in names and not parsed.command and not parsed.login and not parsed.shell:
        parsed.action = FORGET
    elif not parsed.command and not parsed.login and not parsed.shell:
        raise UsageError("")


def _is_assignment(word: str) -> bool:
    name, equals, _ = word.partition("=")
    return bool(equals) and name.isidentifier()
