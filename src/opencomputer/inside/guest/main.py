"""The guest: PID 1 of every machine. Also runs as an ordinary process, for tests of what needs no machine."""

from __future__ import annotations

import os
import resource
import signal
import sys

from . import elevation_messages, protocol
from .cgroups import CgroupTrees
from .children import Children
from .dialling import Dialler
from .elevation import ElevationServer
from .holding import Holder
from .identity import Identity
from .impersonation import Impersonator
from .loop import READ, Loop, log
from .memory import MemoryGuard, kernel_memory, most_processes, read_meminfo
from .open_files import list_holders
from .server import Server
from .session import Surroundings
from .sessions import Sessions
from .size import MachineSize
from .spawning import Spawner
from .syscalls import adopt_orphans, take_from_environment
from .transfers import FileRequests
from .trees import Trees
from .users import OneUser, UserDatabase
from .workers import Workers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType

    from .requests import Request

_OPEN_FILES = 65536


class Guest:
    """All parts of the guest, put together."""

    def __init__(self, token: str, users: UserDatabase, *, is_init: bool) -> None:
        self.loop = Loop()
        children = Children(self.loop)
        self.loop.on_wake = children.reap
        trees = _machine_trees(self.loop) if is_init else Trees(self.loop, whole_machine=False)
        spawner = Spawner(
            Impersonator() if is_init else None, most_processes(kernel_memory(read_meminfo())[0])
        )
        self._size = size = MachineSize(spawner, whole_machine=is_init)
        around = Surroundings(self.loop, children, spawner, trees)
        self.sessions = Sessions(around, users)
        self.elevations = ElevationServer(around, users)
        self.server = Server(self.loop, token, self.sessions.keep_attachments)
        holder = Holder(self.loop, trees, children)
        identity = Identity(self.server, self.sessions, holder, size, whole_machine=is_init)
        files = FileRequests(Workers(self.loop), users, can_give=is_init)
        self.trees = trees
        self._memory = MemoryGuard(trees, size) if is_init else None
        self.server.operations = {
            "ping": _ping,
            "idle": self._idle,
            "identify": identity.identify,
            "limits": size.change,
            "hold": holder.hold,
            "release": holder.release,
            "holders": list_holders,
            "spawn": self._spawn,
            "get": self.sessions.get,
            "list": self.sessions.list_all,
            "signal": self.sessions.signal,
            "resize": self.sessions.resize,
            "label": self.sessions.label,
            "attach": self.sessions.attach,
            "read_file": files.read,
            "write_file": files.write,
            "list_directory": files.list_directory,
            "make_directory": files.make_directory,
            "remove": files.remove,
            "dial": Dialler(self.loop).dial,
        }

    def _spawn(self, request: Request) -> None:
        self._size.refresh()  # what it sees of the memory should not be a second old
        self.sessions.spawn(request)
        if self._memory is not None:
            self._memory.wake()

    def _idle(self, request: Request) -> None:
        request.reply({"processes": self.trees.count_processes()})


def _ping(request: Request) -> None:
    request.reply({})


def _ignore(_number: int, _frame: FrameType | None) -> None:
    """A handler, not SIG_IGN, which the processes we start would inherit."""


def _prepare_process(loop: Loop) -> None:
    for number in (
        signal.SIGHUP,
        signal.SIGINT,
        signal.SIGTERM,
        signal.SIGQUIT,
        signal.SIGUSR1,
        signal.SIGUSR2,
    ):
        signal.signal(number, _ignore)
    signal.signal(signal.SIGCHLD, _ignore)
    signal.set_wakeup_fd(loop.wake_write, warn_on_full_buffer=False)
    os.umask(0o022)
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    for allowed in (_OPEN_FILES, min(_OPEN_FILES, hard)):
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, allowed))
            break
        except (ValueError, OSError):
            continue  # raising it needs a right that only PID 1 of a machine surely has
    try:
        os.set_blocking(2, False)
    except OSError:
        pass


def main() -> None:
    """Run as PID 1 until the machine ends."""
    token = take_from_environment("OC_TOKEN")
    setuid_works = os.environ.pop("OC_SETUID", "1") == "1"
    if not token:
        sys.exit("OC_TOKEN is missing")
    guest = Guest(token, UserDatabase(), is_init=True)
    _prepare_process(guest.loop)
    if not setuid_works or not os.path.exists("/usr/bin/sudo"):
        guest.elevations.listen(elevation_messages.SOCKET)
    guest.server.listen("0.0.0.0", protocol.PORT, refuse_own_address=True)
    guest.loop.run()


def main_on_host() -> None:
    """Run as an ordinary process on 127.0.0.1, print the port, and end with everything at end of input."""
    token = take_from_environment("OC_TOKEN")
    home = os.environ.pop("OC_HOME", os.getcwd())
    guest = Guest(token, OneUser(home), is_init=False)
    _prepare_process(guest.loop)
    adopt_orphans()
    sudo = os.environ.pop("OC_SUDO_SOCKET", "")
    if sudo:
        guest.elevations.listen(sudo)
    print(guest.server.listen("127.0.0.1", 0, refuse_own_address=False), flush=True)

    def at_end(_events: int) -> None:
        guest.trees.kill_everything()
        guest.loop.stop()

    guest.loop.watch(0, READ, at_end)
    guest.loop.run()


def _machine_trees(loop: Loop) -> Trees:
    try:
        return CgroupTrees(loop)
    except OSError as error:
        log(f"no control groups, process trees are kept by descent: {error}")
        return Trees(loop, whole_machine=True)
