"""Who the machine is: what must differ between two machines that woke from one image."""

from __future__ import annotations

import os
import re
import socket
import time

from . import protocol
from .host_keys import renew_host_keys
from .loop import log
from .syscalls import bind
from .trust import install_authority

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .holding import Holder
    from .requests import Request
    from .server import Server
    from .sessions import Sessions
    from .size import MachineSize

GENERATION_VARIABLE = "OPENCOMPUTER_GENERATION"
_MOST_DRIFT_SECONDS = 0.5
_PUBLIC = "/run/opencomputer"
_GENERATION_FILE = f"{_PUBLIC}/generation"
_BOOT_ID_FILE = f"{_PUBLIC}/boot_id"
_KERNELS_BOOT_ID = "/proc/sys/kernel/random/boot_id"


class NewIdentity:
    """What the host says that we are, as it came over the wire."""

    def __init__(self, fields: protocol.JsonObject) -> None:
        self.hostname = protocol.text(fields, "hostname")
        self.machine_id = protocol.text(fields, "machine_id")
        self.token = protocol.text(fields, "token")
        self.environment = protocol.text_map(fields, "environment")
        self.entropy = bytes.fromhex(protocol.text(fields, "entropy"))
        self.now = protocol.number(fields, "now")
        self.workdir = protocol.optional_text(fields, "workdir")
        self.boot_id = protocol.optional_text(fields, "boot_id")
        self.generation = protocol.integer(fields, "generation")
        self.copied = protocol.flag(fields, "copied")
        self.trust = protocol.optional_text(fields, "trust") or ""
        self.memory_bytes = protocol.optional_integer(fields, "memory_bytes")
        self.processors = protocol.optional_integer(fields, "processors")
        if not self.token:
            raise protocol.ProtocolError("the token is empty")


class Identity:
    """Applies a new identity, and then lets go on what is held since the machine was saved.

    `whole_machine` is off where the system around us is not ours to change.
    """

    def __init__(
        self, server: Server, sessions: Sessions, holder: Holder, size: MachineSize, *, whole_machine: bool
    ) -> None:
        self._server = server
        self._sessions = sessions
        self._holder = holder
        self._size = size
        self._whole_machine = whole_machine
        self._boot_id_covered = False

    def identify(self, request: Request) -> None:
        new = NewIdentity(request.fields)
        if self._whole_machine:
            self._change_system(new)
        generation = {GENERATION_VARIABLE: str(new.generation)}
        self._sessions.identity_environment = {**generation, **new.environment}
        self._sessions.identity_workdir = new.workdir
        self._server.token = new.token
        self._size.apply(new.memory_bytes or 0, new.processors or 0)
        self._holder.let_go()
        request.reply({})

    def _change_system(self, new: NewIdentity) -> None:
        _mix_entropy(new.entropy)
        _synchronise_clock(new.now)
        _set_names(new.hostname, new.machine_id)
        if new.boot_id is not None:
            self._set_boot_id(new.boot_id)
        replace_file(_GENERATION_FILE, f"{new.generation}\n")
        if new.trust:
            install_authority(new.trust)
        if new.copied:
            renew_host_keys()

    def _set_boot_id(self, boot_id: str) -> None:
        """The kernel has one boot id for ever; a file of ours covers it from now on."""
        if self._boot_id_covered:
            _write(_BOOT_ID_FILE, f"{boot_id}\n")
            return
        replace_file(_BOOT_ID_FILE, f"{boot_id}\n")
        _attempt("set the boot id", lambda: bind(_BOOT_ID_FILE, _KERNELS_BOOT_ID))
        self._boot_id_covered = True


def with_own_name(hosts: str, hostname: str) -> str:
    """The text of /etc/hosts in which 127.0.1.1 has our name and no other line of ours is left."""
    kept = [line for line in hosts.splitlines() if not re.match(r"\s*127\.0\.1\.1\s", line)]
    return "\n".join([*kept, f"127.0.1.1\t{hostname}", ""])


def replace_file(path: str, text: str) -> None:
    """Give a file that programs read at any time a new content at one instant."""

    def replace() -> None:
        os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
        draft = f"{path}.new"
        with open(draft, "w", encoding="utf-8") as file:
            os.fchmod(file.fileno(), 0o644)
            file.write(text)
        os.replace(draft, path)

    _attempt(f"replace {path}", replace)


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
