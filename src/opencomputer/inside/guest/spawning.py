"""Starting one process with pipes or a terminal of its own."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import struct
import subprocess
import termios

from .permissions import may_enter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .users import User

_UMASK = 0o022
_TTY_GROUP = 5


class StartError(Exception):
    """The program could not be started; `code` is what a shell would have returned."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class Program:
    """What to start, completely: nothing is looked up or filled in any more."""

    __slots__ = ("argv", "cwd", "environment", "user")

    def __init__(self, argv: list[str], environment: dict[str, str], cwd: str, user: User) -> None:
        self.argv = argv
        self.environment = environment
        self.cwd = cwd
        self.user = user


class Started:
    """A running process and our ends of its pipes. `outputs` maps channel to descriptor."""

    __slots__ = ("input", "outputs", "pid")

    def __init__(self, pid: int, input: int | None, outputs: dict[int, int]) -> None:
        self.pid = pid
        self.input = input
        self.outputs = outputs


class Spawner:
    """Starts programs as their users. `switch_users` is off where we are no root."""

    def __init__(self, *, switch_users: bool) -> None:
        self._switch_users = switch_users
        self._null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)

    def start_piped(self, program: Program, *, stdin: bool) -> Started:
        """Start with pipes on its outputs and, if `stdin`, on its input, which is at its end otherwise."""
        ours: list[int] = []
        theirs: list[int] = []
        try:
            for for_input in (True, False, False) if stdin else (False, False):
                reader, writer = self._pipe(program.user, for_input=for_input)
                ours.append(writer if for_input else reader)
                theirs.append(reader if for_input else writer)
            source = theirs[0] if stdin else self._null
            pid = self._start(program, (source, theirs[-2], theirs[-1]))
        except BaseException:
            _close_all(ours)
            raise
        finally:
            _close_all(theirs)
        return Started(pid, ours[0] if stdin else None, {1: ours[-2], 2: ours[-1]})

    def start_in_terminal(self, program: Program, columns: int, rows: int) -> Started:
        """Start as the session leader of a new terminal."""
        master, slave = os.openpty()
        try:
            os.set_blocking(master, False)
            resize_terminal(master, columns, rows)
            self._give_terminal(slave, program.user)
            pid = self._start(program, (slave, slave, slave), _take_terminal)
        except BaseException:
            os.close(master)
            raise
        finally:
            os.close(slave)
        return Started(pid, master, {1: master})

    def _pipe(self, user: User, *, for_input: bool) -> tuple[int, int]:
        reader, writer = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(writer if for_input else reader, False)
        if self._switch_users and user.uid != 0:
            # Else opening /dev/stdout or /dev/stderr by name is refused to the process itself.
            try:
                os.fchown(reader if for_input else writer, user.uid, user.gid)
            except OSError:
                pass
        return reader, writer

    def _give_terminal(self, slave: int, user: User) -> None:
        if not self._switch_users:
            return
        try:
            os.fchown(slave, user.uid, _TTY_GROUP)
            os.fchmod(slave, 0o620)
        except OSError:
            pass

    def _start(
        self, program: Program, descriptors: tuple[int, int, int], prepare: Callable[[], None] | None = None
    ) -> int:
        self._check_directory(program)
        user = program.user
        switch = self._switch_users
        try:
            process = subprocess.Popen(
                program.argv,
                stdin=descriptors[0],
                stdout=descriptors[1],
                stderr=descriptors[2],
                env=program.environment,
                cwd=program.cwd,
                # Every descriptor of ours is close-on-exec; asking again costs time at each start.
                close_fds=False,
                start_new_session=True,
                user=user.uid if switch else None,
                group=user.gid if switch else None,
                extra_groups=list(user.groups) if switch else None,
                umask=_UMASK,
                preexec_fn=prepare,
            )
        except OSError as error:
            raise _explain(program, error) from error
        except ValueError as error:
            raise StartError(126, f"{program.argv[0]}: {error}") from error
        # The status is collected by `Children`; without this, Popen would look for it, too.
        process.returncode = 0
        return process.pid

    def _check_directory(self, program: Program) -> None:
        cwd = program.cwd
        try:
            mode = os.stat(cwd).st_mode
        except OSError:
            raise StartError(127, f"{cwd}: no such directory") from None
        if not stat.S_ISDIR(mode):
            raise StartError(126, f"{cwd}: not a directory")
        if self._switch_users and not may_enter(program.user, cwd):
            raise StartError(126, f"{cwd}: permission denied")


def resize_terminal(master: int, columns: int, rows: int) -> None:
    """Set the size; the kernel tells the foreground processes."""
    fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


def _take_terminal() -> None:
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def _explain(program: Program, error: OSError) -> StartError:
    name = program.argv[0]
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        if "/" in name and os.path.exists(os.path.join(program.cwd, name)):
            return StartError(126, f"{name}: its interpreter was not found")
        return StartError(127, f"{name}: command not found")
    reasons = {
        errno.EACCES: "permission denied",
        errno.ENOEXEC: "not an executable file",
        errno.E2BIG: "arguments and environment are too long",
        errno.EAGAIN: "cannot start another process: the limit is reached",
        errno.ENOMEM: "cannot start another process: out of memory",
    }
    return StartError(126, f"{name}: {reasons.get(error.errno or 0, os.strerror(error.errno or 0))}")


def _close_all(descriptors: list[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)
