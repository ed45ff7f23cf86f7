"""Runs commands for `sudo` where the kernel ignores set-user-ID bits.

Only the sandbox user and root may ask: whoever is sandbox may be root in this machine anyway, as the image's
sudoers say. The command gets the caller's own descriptors; where those are terminals, a terminal of its own,
whose other side goes to the caller.
"""

from __future__ import annotations

import array
import os
import signal
import socket
import struct
import termios

from . import elevation_messages as messages
from .loop import READ, Timer, log
from .spawning import Program, StartError
from .trees import tell_session_of_size
from .users import SANDBOX, User

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .session import Surroundings
    from .users import UserDatabase

_REQUEST_SECONDS = 10.0
_MOST_WAITING = 64
_DESCRIPTORS = 3
_CREDENTIALS = struct.Struct("iii")


class ElevationServer:
    """Listens for sudo's client."""

    def __init__(self, around: Surroundings, users: UserDatabase) -> None:
        self._around = around
        self._users = users
        self._waiting: set[Elevation] = set()

    def listen(self, path: str) -> None:
        os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
        try:
            os.unlink(path)
        except FileNotFoundError:
            pass
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(path)
        os.chmod(path, 0o666)
        listener.listen(64)
        listener.setblocking(False)
        self._around.loop.watch(listener.fileno(), READ, lambda _events: self._accept(listener))

    def forget(self, elevation: Elevation) -> None:
        self._waiting.discard(elevation)

    def _accept(self, listener: socket.socket) -> None:
        try:
            sock, _ = listener.accept()
        except OSError:
            return
        if len(self._waiting) >= _MOST_WAITING:
            sock.close()
            return
        try:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
            # Only what is sent from now on carries the sender's credentials.
            sock.send(messages.READY)
        except OSError:
            sock.close()
            return
        self._waiting.add(Elevation(self, self._around, self._users, sock))

    def allows(self, uid: int) -> bool:
        sandbox = self._users.find(SANDBOX)
        return uid in (0, os.geteuid()) or (sandbox is not None and uid == sandbox.uid)


class Elevation:
    """One caller: reads its request, starts its command, passes signals on, tells the end."""

    def __init__(
        self,
        server: ElevationServer,
        around: Surroundings,
        users: UserDatabase,
        sock: socket.socket,
    ) -> None:
        self._server = server
        self._around = around
        self._users = users
        self._socket: socket.socket | None = sock
        self._caller: int | None = None
        self._received = bytearray()
        self._descriptors: list[int] = []
        self._pid: int | None = None
        sock.setblocking(False)
        self._deadline: Timer = around.loop.call_later(_REQUEST_SECONDS, self._close)
        around.loop.watch(sock.fileno(), READ, self._ready)

    def _ready(self, _events: int) -> None:
        if self._socket is None:
            return
        try:
            data = self._receive(self._socket)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data = b""
        if not data:
            self._close()
            return
        self._received += data
        try:
            if self._pid is None:
                self._take_request()
            if self._pid is not None:
                self._take_signals(self._pid)
        except (ValueError, OSError) as error:
            log(f"closing a request for sudo: {error}")
            self._close()

    def _receive(self, sock: socket.socket) -> bytes:
        room = socket.CMSG_SPACE(_DESCRIPTORS * array.array("i").itemsize)
        room += socket.CMSG_SPACE(_CREDENTIALS.size)
        data, ancillary, _, _ = sock.recvmsg(1 << 16, room, socket.MSG_CMSG_CLOEXEC)
        for level, kind, content in ancillary:
            if level != socket.SOL_SOCKET:
                continue
            if kind == socket.SCM_RIGHTS:
                found = array.array("i")
                found.frombytes(content[: len(content) - len(content) % found.itemsize])
                self._descriptors.extend(found)
            elif kind == socket.SCM_CREDENTIALS and data and self._caller is None:
                self._know(*_CREDENTIALS.unpack(content))
        if len(self._descriptors) > _DESCRIPTORS:
            raise OSError("more descriptors than a command has")
        return data

    def _know(self, pid: int, uid: int, _gid: int) -> None:
        """By the credentials that come with the message: gVisor's SO_PEERCRED names whoever asks."""
        if not self._server.allows(uid):
            raise OSError(f"user {uid} may not use sudo")
        self._caller = pid

    def _take_request(self) -> None:
        head = messages.LENGTH.size
        if len(self._received) < head:
            return
        (length,) = messages.LENGTH.unpack_from(self._received)
        if length > messages.MOST_BYTES:
            raise ValueError("the request is too long")
        if len(self._received) < head + length:
            return
        request = messages.decode_request(bytes(self._received[head : head + length]))
        del self._received[: head + length]
        if self._caller is None or len(self._descriptors) != _DESCRIPTORS:
            raise ValueError("the caller's credentials or descriptors are missing")
        self._deadline.cancel()
        self._server.forget(self)
        self._start(request, self._caller)

    def _start(self, request: messages.ElevationRequest, caller: int) -> None:
        user = self._user(request)
        program = Program(request.argv, request.environment, request.cwd, user, request.executable)
        master: int | None = None
        try:
            with self._around.trees.of_process(caller).joining():
                if request.terminals:
                    self._pid, master = self._start_in_terminal(program, request.terminals)
                else:
                    first, second, third = self._descriptors
                    self._pid = self._around.spawner.start_with(program, (first, second, third))
        except StartError as error:
            self._refuse(error.message)
            return
        finally:
            self._close_descriptors()
        self._around.children.register(self._pid, self._ended, self._stopped)
        self._say(messages.STARTED, 0, master)
        if master is not None:
            os.close(master)

    def _start_in_terminal(self, program: Program, terminals: int) -> tuple[int, int]:
        master, slave = os.openpty()
        try:
            own = [self._descriptors[index] for index in range(_DESCRIPTORS) if terminals & 1 << index]
            _copy_terminal(own[0], slave, output_only=not terminals & 1)
            descriptors = [
                slave if terminals & 1 << index else self._descriptors[index] for index in range(_DESCRIPTORS)
            ]
            first, second, third = descriptors
            pid = self._around.spawner.start_on_terminal(program, slave, (first, second, third))
        except BaseException:
            os.close(master)
            raise
        finally:
            os.close(slave)
        return pid, master

    def _user(self, request: messages.ElevationRequest) -> User:
        known = self._users.find_by_uid(request.uid)
        if known is None:
            return User(str(request.uid), request.uid, request.gid, "/", "/bin/sh")
        return User(known.name, known.uid, request.gid, known.home, known.shell, known.groups)

    def _take_signals(self, pid: int) -> None:
        while len(self._received) >= messages.WORD.size:
            kind, number = messages.WORD.unpack_from(self._received)
            del self._received[: messages.WORD.size]
            if kind != messages.SIGNAL or not 1 <= number <= 64:
                raise ValueError("not a signal")
            if number == signal.SIGWINCH:
                tell_session_of_size(pid)
                continue
            try:
                os.killpg(pid, number)
            except ProcessLookupError:
                pass

    def _stopped(self, number: int) -> None:
        self._say(messages.STOPPED, number)

    def _ended(self, status: int) -> None:
        code = os.waitstatus_to_exitcode(status)
        if code >= 0:
            self._say(messages.EXITED, code)
        else:
            self._say(messages.KILLED, -code)
        self._close()

    def _refuse(self, reason: str) -> None:
        text = reason.encode("utf-8", "surrogateescape")[:1000]
        self._say(messages.REFUSED, len(text), None, text)
        self._close()

    def _say(self, kind: bytes, number: int, descriptor: int | None = None, text: bytes = b"") -> None:
        if self._socket is None:
            return
        rights = (
            []
            if descriptor is None
            else [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [descriptor]))]
        )
        try:
            self._socket.sendmsg([messages.WORD.pack(kind, number) + text], rights)
        except OSError:
            self._close()  # the caller is gone, or does not read these few bytes

    def _close(self) -> None:
        self._deadline.cancel()
        self._server.forget(self)
        self._close_descriptors()
        sock, self._socket = self._socket, None
        if sock is not None:
            self._around.loop.unwatch(sock.fileno())
            sock.close()

    def _close_descriptors(self) -> None:
        descriptors, self._descriptors = self._descriptors, []
        for descriptor in descriptors:
            os.close(descriptor)


def _copy_terminal(source: int, target: int, *, output_only: bool) -> None:
    """The new terminal begins as the caller's is.

    With `output_only` the caller's terminal stays as it is, too, and does the work on the output.
    """
    try:
        attributes = termios.tcgetattr(source)
        if output_only:
            attributes[1] &= ~termios.OPOST
        termios.tcsetattr(target, termios.TCSANOW, attributes)
        termios.tcsetwinsize(target, termios.tcgetwinsize(source))
    except termios.error:
        pass
