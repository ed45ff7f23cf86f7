"""The environment and the command that sudo starts. Pure."""

from __future__ import annotations

from .arguments import Arguments, shell_command

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

SECURE_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
SESSION_MARK = "OC_SESSION_ID"

_KEPT = ("TERM", "COLORTERM", "COLORS", "DISPLAY", "HOSTNAME", "LS_COLORS", "PS1", "PS2", "XAUTHORITY", "TZ")
_KEPT_PREFIXES = ("LANG", "LC_")


class Account:
    """One line of /etc/passwd, as far as it matters here."""

    def __init__(self, name: str, uid: int, gid: int, home: str, shell: str) -> None:
        self.name = name
        self.uid = uid
        self.gid = gid
        self.home = home
        self.shell = shell


def find_account(passwd: str, wanted: str) -> Account | None:
    """The account of that name, or of that number where `wanted` is `#number`."""
    for line in passwd.splitlines():
        fields = line.split(":")
        if len(fields) < 7 or not fields[2].isdecimal() or not fields[3].isdecimal():
            continue
        if wanted in (fields[0], f"#{fields[2]}"):
            return Account(
                fields[0], int(fields[2]), int(fields[3]), fields[5] or "/", fields[6] or "/bin/sh"
            )
    if wanted in ("root", "#0"):
        return Account("root", 0, 0, "/root", "/bin/sh")
    if wanted.startswith("#") and wanted[1:].isdecimal():
        return Account(wanted[1:], int(wanted[1:]), int(wanted[1:]), "/", "/bin/sh")
    return None


class Plan:
    """What PID 1 is asked to start. `executable` is looked up on the path of `environment`."""

    def __init__(self, executable: str, argv: list[str], environment: dict[str, str], cwd: str) -> None:
        self.executable = executable
        self.argv = argv
        self.environment = environment
        self.cwd = cwd


def plan(
    arguments: Arguments,
    caller: Account,
    target: Account,
    callers_environment: Mapping[str, str],
    image_environment: Mapping[str, str],
) -> Plan:
    """Turn the arguments into a command with its whole environment. `cwd` is empty for the caller's own."""
    executable, argv = _command(arguments, target, callers_environment)
    environment = _environment(arguments, target, callers_environment, image_environment)
    environment["SUDO_COMMAND"] = " ".join([executable, *argv[1:]])
    environment["SUDO_USER"] = caller.name
    environment["SUDO_UID"] = str(caller.uid)
    environment["SUDO_GID"] = str(caller.gid)
    if SESSION_MARK in callers_environment:
        environment[SESSION_MARK] = callers_environment[SESSION_MARK]
    cwd = arguments.directory or (target.home if arguments.login else "")
    return Plan(executable, argv, environment, cwd)


def _command(
    arguments: Arguments, target: Account, callers_environment: Mapping[str, str]
) -> tuple[str, list[str]]:
    if not arguments.login and not arguments.shell:
        return arguments.command[0], arguments.command
    shell = target.shell if arguments.login else callers_environment.get("SHELL") or target.shell
    name = shell.rpartition("/")[2]
    argv = [f"-{name}" if arguments.login else name]
    if arguments.command:
        argv += ["-c", shell_command(arguments.command)]
    return shell, argv


def _environment(
    arguments: Arguments,
    target: Account,
    callers: Mapping[str, str],
    image: Mapping[str, str],
) -> dict[str, str]:
    preserve = arguments.preserve and not arguments.login
    if preserve:
        environment = dict(callers)
    else:
        environment = {
            name: value
            for name, value in callers.items()
            if name in _KEPT or name.startswith(_KEPT_PREFIXES) or name in arguments.keep
        }
        environment["SHELL"] = target.shell
    for name, value in image.items():
        environment.setdefault(name, value)
    if arguments.set_home or not preserve:
        environment["HOME"] = target.home
    environment["USER"] = environment["LOGNAME"] = target.name
    environment["MAIL"] = f"/var/mail/{target.name}"
    environment["PATH"] = SECURE_PATH
    if arguments.shell:
        environment["SHELL"] = callers.get("SHELL") or target.shell
    environment.update(arguments.assignments)
    return environment
