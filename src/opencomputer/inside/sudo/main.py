"""sudo's client: asks PID 1 to run a command as another user, and stands in for it meanwhile."""

from __future__ import annotations

import os
import signal
import socket
import sys

from .arguments import FORGET, HELP, LIST, RUN, USAGE, VALIDATE, VERSION, Arguments, UsageError, parse
from .environment import Account, find_account, plan
from .messages import SOCKET, Request
from .standing_in import Refused, StandIn

_REAL = "/usr/bin/sudo"
_IMAGE_ENVIRONMENT = "/etc/opencomputer/environment"
_MOST_BYTES = 1 << 20


def main() -> None:
    """Behave as sudo would; the exit code is the command's."""
    words = sys.argv[1:]
    sudo_socket = os.environ.get("OC_SUDO_SOCKET", SOCKET)
    if not os.path.exists(sudo_socket):
        _become_the_real_one(words)
    try:
        arguments = parse(words)
    except UsageError as error:
        if str(error):
            _complain(str(error))
        sys.stderr.write(USAGE)
        sys.exit(1)
    passwd = _read("/etc/passwd")
    caller = find_account(passwd, f"#{os.getuid()}")
    target = find_account(passwd, arguments.user)
    if target is None or caller is None:
        _complain(f"unknown user {arguments.user}")
        sys.exit(1)
    if arguments.action == RUN:
        _run(arguments, caller, target, sudo_socket)
    else:
        _other(arguments, caller)


def _run(arguments: Arguments, caller: Account, target: Account, sudo_socket: str) -> None:
    gid = target.gid if arguments.group is None else _group(arguments.group)
    plan_ = plan(arguments, caller, target, os.environ, _assignments(_read(_IMAGE_ENVIRONMENT)))
    terminals = sum(1 << descriptor for descriptor in (0, 1, 2) if _is_terminal(descriptor))
    cwd = os.path.join(_here(), plan_.cwd)
    request = Request(target.uid, gid, terminals, cwd).encode(plan_.executable, plan_.argv, plan_.environment)
    if arguments.background and os.fork():
        os._exit(0)
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.connect(sudo_socket)
        code, number = StandIn(connection, terminals).run(request)
    except Refused as error:
        _complain(str(error))
        sys.exit(1)
    except OSError as error:
        _complain(f"cannot reach the machine's first process: {error.strerror or error}")
        sys.exit(1)
    if number:
        # Die as the command did, so that the shell says the same.
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
        code = 128 + number
    sys.stdout.flush()
    os._exit(code)


def _other(arguments: Arguments, caller: Account) -> None:
    if arguments.action == VERSION:
        print("Sudo version 1.9 (OpenComputer's own, for machines without set-user-ID)")
    elif arguments.action == HELP:
        print("sudo - execute a command as another user\n\n" + USAGE, end="")
    elif arguments.action == LIST:
        if arguments.command:
            print(" ".join(arguments.command))
        else:
            print(f"User {caller.name} may run the following commands on {socket.gethostname()}:")
            print("    (ALL : ALL) NOPASSWD: ALL")
    elif arguments.action not in (VALIDATE, FORGET):
        _complain("editing files is not supported here; use 'sudo EDITOR FILE'")
        sys.exit(1)


def _become_the_real_one(words: list[str]) -> None:
    try:
        os.execv(_REAL, ["sudo", *words])
    except OSError as error:
        _complain(f"{_REAL}: {error.strerror}")
        sys.exit(1)


def _group(name: str) -> int:
    if name.startswith("#") and name[1:].isdecimal():
        return int(name[1:])
    for line in _read("/etc/group").splitlines():
        fields = line.split(":")
        if len(fields) >= 3 and fields[0] == name and fields[2].isdecimal():
            return int(fields[2])
    _complain(f"unknown group {name}")
    sys.exit(1)


def _is_terminal(descriptor: int) -> bool:
    try:
        return os.isatty(descriptor)
    except OSError:
        return False


def _here() -> str:
    try:
        return os.getcwd()
    except OSError:
        return "/"


def _assignments(text: str) -> dict[str, str]:
    lines = (line.partition("=") for line in text.splitlines() if "=" in line and not line.startswith("#"))
    return {name.strip(): value for name, _, value in lines if name.strip()}


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read(_MOST_BYTES)
    except OSError:
        return ""


def _complain(message: str) -> None:
    sys.stderr.write(f"sudo: {message}\n")
    sys.stderr.flush()
