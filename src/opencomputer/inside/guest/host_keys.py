"""The keys by which an SSH server proves who it is. Two machines must not prove to be the same."""

from __future__ import annotations

import glob
import os
import re
import signal
import subprocess

from .loop import log

_FOLDER = "/etc/ssh"
_SERVERS_PID = "/run/sshd.pid"
_SECONDS = 20.0


def renew_host_keys() -> None:
    """Replace every host key by a new one of its kind. One that cannot be made anew is removed."""
    kinds = host_key_kinds(glob.glob(f"{_FOLDER}/ssh_host_*_key"))
    for path, kind in kinds.items():
        try:
            _renew(path, kind)
        except (OSError, subprocess.SubprocessError) as error:
            log(f"cannot make a new {path}: {error}")
    if kinds:
        _tell_server()


def host_key_kinds(paths: list[str]) -> dict[str, str]:
    """The kind of each key, which its name tells."""
    found: dict[str, str] = {}
    for path in sorted(paths):
        match = re.fullmatch(r"ssh_host_([a-z0-9]+)_key", os.path.basename(path))
        if match:
            found[path] = match[1]
    return found


def _renew(path: str, kind: str) -> None:
    for old in (path, f"{path}.pub"):
        if os.path.lexists(old):
            os.unlink(old)
    subprocess.run(
        ["ssh-keygen", "-q", "-t", kind, "-N", "", "-C", "", "-f", path],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={"PATH": "/usr/bin:/bin"},
        timeout=_SECONDS,
        check=True,
    )


def _tell_server() -> None:
    """A server that runs has its keys in memory until it is told to start again."""
    try:
        with open(_SERVERS_PID, encoding="ascii") as file:
            os.kill(int(file.read(32)), signal.SIGHUP)
    except (OSError, ValueError):
        return
