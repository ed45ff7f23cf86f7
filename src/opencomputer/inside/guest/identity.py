"""Who the machine is: what must differ between two machines that woke from one image."""

from __future__ import annotations

import os
import re
import socket
import time

from . import protocol
from .loop import log

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .requests import Request
    from .server import Server
    from .sessions import Sessions

_MOST_DRIFT_SECONDS = 0.5


class Identity:
    """Applies a new identity. `whole_machine` is off where the system around us is not ours to change."""

    def __init__(self, server: Server, sessions: Sessions, *, whole_machine: bool) -> None:
        self._server = server
        self._sessions = sessions
        self._whole_machine = whole_machine

    def identify(self, request: Request) -> None:
        fields = request.fields
        hostname = protocol.text(fields, "hostname")
        machine_id = protocol.text(fields, "machine_id")
        token = protocol.text(fields, "token")
        environment = protocol.text_map(fields, "environment")
        entropy = bytes.fromhex(protocol.text(fields, "entropy"))
        now = protocol.number(fields, "now")
        if not token:
            raise protocol.ProtocolError("the token is empty")
        if self._whole_machine:
            _mix_entropy(entropy)
            _synchronise_clock(now)
            _set_names(hostname, machine_id)
        self._sessions.identity_environment = environment
        self._server.token = token
        request.reply({})


def with_own_name(hosts: str, hostname: str) -> str:
    """The text of /etc/hosts in which 127.0.1.1 has our name and no other line of ours is left."""
    kept = [line for line in hosts.splitlines() if not re.match(r"\s*127\.0\.1\.1\s", line)]
    return "\n".join([*kept, f"127.0.1.1\t{hostname}", ""])


def _set_names(hostname: str, machine_id: str) -> None:
    _attempt("set the host name", lambda: socket.sethostname(hostname))
    _write("/etc/hostname", f"{hostname}\n")
    _write("/etc/machine-id", f"{machine_id}\n")
    try:
        with open("/etc/hosts", encoding="utf-8", errors="surrogateescape") as file:
            hosts = file.read(1 << 20)
    except OSError:
        hosts = "127.0.0.1\tlocalhost\n"
    _write("/etc/hosts", with_own_name(hosts, hostname))


def _mix_entropy(entropy: bytes) -> None:
    def mix() -> None:
        with open("/dev/urandom", "wb", buffering=0) as file:
            file.write(entropy)

    _attempt("mix entropy", mix)


def _synchronise_clock(now: float) -> None:
    """Set the wall clock where it is ours and wrong; gVisor's clock is the host's own."""
    if abs(time.time() - now) > _MOST_DRIFT_SECONDS:
        _attempt("set the clock", lambda: time.clock_settime(time.CLOCK_REALTIME, now))


def _write(path: str, text: str) -> None:
    def write() -> None:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        with open(descriptor, "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write(text)

    _attempt(f"write {path}", write)


def _attempt(what: str, action: Callable[[], None]) -> None:
    """An image without /etc, say, is still a machine: report and go on."""
    try:
        action()
    except OSError as error:
        log(f"cannot {what}: {error}")
