"""Starting one process with pipes or a terminal of its own.

Pipes are the common case and fast: `posix_spawn` does not copy our memory map, which costs most of a fork
under gVisor. It knows no other user, so the thread that calls it becomes that user for the moment.
"""

from __future__ import annotations

import errno
import fcntl
import os
import resource
import signal
import stat
import struct
import subprocess
import termios

from .lookup import NotExecutable, find_program
from .permissions import may_enter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .impersonation import Impersonator
    from .users import User

_UMASK = 0o022
_TTY_GROUP = 5
_IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)


class StartError(Exception):
    """The program could not be started; `code` is what a shell would have returned."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class Program:
    """What to start, completely: nothing but the program's place is looked up any more.

    `name` is looked up; it is argv[0] unless given.
    """

    __slots__ = ("argv", "cwd", "environment", "name", "user")

    def __init__(
        self,
        argv: list[str],
        environment: dict[str, str],
        cwd: str,
        user: User,
        name: str | None = None,
    ) -> None:
        self.name = name or argv[0]
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
    """Starts programs as their users, or as ourselves where there is no `impersonator`.

    Each user may have `most_processes`, threads included.
    """

    def __init__(self, impersonator: Impersonator | None, most_processes: int) -> None:
        self._impersonator = impersonator
        self.most_processes = most_processes
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
            pid = self.start_with(program, (source, theirs[-2], theirs[-1]))
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
            pid = self.start_on_terminal(program, slave, (slave, slave, slave))
        except BaseException:
            os.close(master)
            raise
        finally:
            os.close(slave)
        return Started(pid, master, {1: master})

    def start_with(self, program: Program, descriptors: tuple[int, int, int]) -> int:
        """Start in a session of its own with these descriptors as 0, 1 and 2; the pid.

        Raises StartError. The caller reaps.
        """
        self._check_directory(program)
        path = self._find(program)
        try:
            try:
                return self._spawn(program, path, program.argv, descriptors)
            except OSError as error:
                if error.errno != errno.ENOEXEC:
                    raise
                # Like a shell: a text without an interpreter line is a shell script.
                script = ["sh", path, *program.argv[1:]]
                return self._spawn(program, "/bin/sh", script, descriptors)
        except OSError as error:
            raise _explain(program, error) from error

    def _spawn(self, program: Program, path: str, argv: list[str], descriptors: tuple[int, int, int]) -> int:
        actions = [(os.POSIX_SPAWN_DUP2, source, target) for target, source in enumerate(descriptors)]

        def spawn() -> int:
            # A working directory belongs to the whole process; ours is nobody's business but the child's.
            os.chdir(program.cwd)
            try:
                return os.posix_spawn(
                    path,
                    argv,
                    program.environment,
                    file_actions=actions,
                    setsid=True,
                    setsigmask=(),
                    setsigdef=_IGNORED_BY_PYTHON,
                )
            finally:
                os.chdir("/")

        if self._impersonator is None:
            return spawn()
        pid = self._impersonator.call_as(program.user, spawn)
        self._limit(pid)
        return pid

    def start_on_terminal(self, program: Program, slave: int, descriptors: tuple[int, int, int]) -> int:
        """Like `start_with`, with `slave` as the controlling terminal."""
        self._check_directory(program)
        path = self._find(program)
        self._give_terminal(slave, program.user)
        user = program.user
        switch = self._impersonator is not None
        try:
            # Taking a controlling terminal needs code between fork and exec, which posix_spawn has not.
            process = subprocess.Popen(
                program.argv,
                executable=path,
                stdin=descriptors[0],
                stdout=descriptors[1],
                stderr=descriptors[2],
                env=program.environment,
                cwd=program.cwd,
                close_fds=False,
                start_new_session=True,
                user=user.uid if switch else None,
                group=user.gid if switch else None,
                extra_groups=list(user.groups) if switch else None,
                umask=_UMASK,
                preexec_fn=lambda: fcntl.ioctl(slave, termios.TIOCSCTTY, 0),
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise _explain(program, error) from error
        # The status is collected by `Children`; without this, Popen would look for it, too.
        process.returncode = 0
        if switch:
            self._limit(process.pid)
        return process.pid

    def _limit(self, pid: int) -> None:
        """Bound what the process and all its user's processes may become in number; root is not bound.

        Set on the child: with the limit on ourselves, nobody could start anything beside a fork bomb.
        """
        try:
            resource.prlimit(pid, resource.RLIMIT_NPROC, (self.most_processes, self.most_processes))
        except OSError:
            pass  # it has ended already

    def _pipe(self, user: User, *, for_input: bool) -> tuple[int, int]:
        reader, writer = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(writer if for_input else reader, False)
        if self._impersonator is not None and user.uid != 0:
            # Else opening /dev/stdout or /dev/stderr by name is refused to the process itself.
            try:
                os.fchown(reader if for_input else writer, user.uid, user.gid)
            except OSError:
                pass
        return reader, writer

    def _give_terminal(self, slave: int, user: User) -> None:
        if self._impersonator is None:
            return
        try:
            os.fchown(slave, user.uid, _TTY_GROUP)
            os.fchmod(slave, 0o620)
        except OSError:
            pass

    def _check_directory(self, program: Program) -> None:
        cwd = program.cwd
        try:
            mode = os.stat(cwd).st_mode
        except OSError:
            raise StartError(127, f"{cwd}: no such directory") from None
        if not stat.S_ISDIR(mode):
            raise StartError(126, f"{cwd}: not a directory")
        if self._impersonator is not None and not may_enter(program.user, cwd):
            raise StartError(126, f"{cwd}: permission denied")

    def _find(self, program: Program) -> str:
        name = program.name
        try:
            return find_program(name, program.environment, program.cwd, program.user)
        except FileNotFoundError:
            raise StartError(127, f"{name}: command not found") from None
        except NotExecutable:
            raise StartError(126, f"{name}: permission denied") from None


def resize_terminal(master: int, columns: int, rows: int) -> None:
    """Set the size; the kernel tells the foreground processes."""
    fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


def _explain(program: Program, error: Exception) -> StartError:
    name = program.name
    number = error.errno if isinstance(error, OSError) else None
    reasons = {
        errno.ENOENT: "its interpreter was not found",
        errno.EACCES: "permission denied",
        errno.ENOEXEC: "not an executable file",
        errno.E2BIG: "arguments and environment are too long",
        # gVisor says this of a single argument.
        errno.ENAMETOOLONG: "arguments and environment are too long",
        errno.EAGAIN: "cannot start another process: the limit is reached",
        errno.ENOMEM: "cannot start another process: out of memory",
    }
    reason = reasons.get(number or 0) or (os.strerror(number) if number else str(error))
    return StartError(126, f"{name}: {reason}")


def _close_all(descriptors: list[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)
