"""What the client does while the command runs elsewhere: pass signals, move the terminal's bytes, wait."""

from __future__ import annotations

import array
import os
import select
import signal
import socket
import termios
import tty

from . import messages

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType

_PASSED_ON = (
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGALRM,
)
_SIGNAL_KEYS = (termios.VINTR, termios.VQUIT, termios.VSUSP)
_READ_SIZE = 65536


class Refused(Exception):
    """The guest would not run the command; the message says why."""


class StandIn:
    """The command's place in the caller's process tree and on the caller's terminal."""

    def __init__(self, connection: socket.socket, terminals: int) -> None:
        self._connection = connection
        self._own_input = 0 if terminals & 1 else None
        self._own_output = next((each for each in (1, 2) if terminals & 1 << each), None)
        self._terminal = next((each for each in (0, 1, 2) if terminals & 1 << each), None)
        self._master: int | None = None
        self._saved: list[object] | None = None
        self._received = bytearray()
        self._end: tuple[int, int] | None = None

    def run(self, request: bytes) -> tuple[int, int]:
        """Exit code and, if a signal ended the command, its number. Raises Refused, OSError."""
        if self._connection.recv(1) != messages.READY:
            raise Refused("the machine's first process does not answer")
        # Before the command can run: it may send a signal to us at once.
        wake = _note_signals()
        descriptors = array.array("i", [_usable(each) for each in (0, 1, 2)])
        sent = self._connection.sendmsg([request], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, descriptors)])
        if sent < len(request):
            self._connection.sendall(request[sent:])
        try:
            return self._serve(wake)
        finally:
            self._restore()

    def _serve(self, wake: int) -> tuple[int, int]:
        while True:
            watched: list[int] = [self._connection.fileno(), wake]
            if self._master is not None:
                watched.append(self._master)
                if self._own_input is not None and self._in_foreground():
                    watched.append(self._own_input)
            ready, _, _ = select.select(watched, [], [])
            if wake in ready:
                self._pass_signals(os.read(wake, 64))
            if self._own_input is not None and self._own_input in ready:
                self._type(self._own_input)
            if self._master is not None and self._master in ready:
                self._show(self._master)
            if self._connection.fileno() in ready:
                self._listen()
            if self._end is not None:
                self._show_the_rest()
                return self._end

    def _listen(self) -> None:
        data, ancillary, _, _ = self._connection.recvmsg(4096, socket.CMSG_SPACE(4))
        for _, kind, content in ancillary:
            if kind == socket.SCM_RIGHTS:
                self._master = array.array("i", content[:4])[0]
                self._make_raw()
        if not data:
            raise ConnectionError("the connection was closed")
        self._received += data
        while self._received:
            if len(self._received) < messages.WORD.size:
                return
            kind, number = messages.WORD.unpack_from(self._received)
            size = messages.WORD.size + (number if kind == messages.REFUSED else 0)
            if len(self._received) < size:
                return
            text = bytes(self._received[messages.WORD.size : size])
            del self._received[:size]
            if kind == messages.REFUSED:
                raise Refused(text.decode("utf-8", "surrogateescape"))
            if kind == messages.EXITED:
                self._end = (number, 0)
            elif kind == messages.KILLED:
                self._end = (128 + number, number)
            elif kind == messages.STOPPED:
                self._stop_too()

    def _pass_signals(self, numbers: bytes) -> None:
        for number in numbers:
            if number == signal.SIGWINCH:
                self._copy_size()
                self._connection.send(messages.WORD.pack(messages.SIGNAL, number))
            elif number == signal.SIGCONT:
                self._make_raw()
            elif number in _PASSED_ON:
                self._connection.send(messages.WORD.pack(messages.SIGNAL, number))

    def _type(self, own_input: int) -> None:
        data = os.read(own_input, _READ_SIZE)
        if not data:
            self._own_input = None
        elif self._master is not None:
            os.write(self._master, data)

    def _show(self, master: int) -> bool:
        try:
            data = os.read(master, _READ_SIZE)
        except OSError:
            data = b""  # the last process has closed its side
        if not data:
            os.close(master)
            self._master = None
            return False
        if self._own_output is not None:
            view = memoryview(data)
            while view:
                view = view[os.write(self._own_output, view) :]
        return True

    def _show_the_rest(self) -> None:
        while self._master is not None and select.select([self._master], [], [], 0.05)[0]:
            self._show(self._master)

    def _stop_too(self) -> None:
        """The command was stopped: give the terminal back, stop, and go on together later."""
        self._restore()
        os.kill(os.getpid(), signal.SIGSTOP)
        self._make_raw()
        self._connection.send(messages.WORD.pack(messages.SIGNAL, signal.SIGCONT))

    def _make_raw(self) -> None:
        if self._master is None or self._own_input is None or not self._in_foreground():
            return
        self._copy_size()
        if self._saved is None:
            self._saved = list(termios.tcgetattr(self._own_input))
        tty.setraw(self._own_input, termios.TCSADRAIN)
        attributes = termios.tcgetattr(self._own_input)
        for key in _SIGNAL_KEYS:  # gVisor builds make signals of them in raw mode, too
            attributes[6][key] = b"\0"
        termios.tcsetattr(self._own_input, termios.TCSADRAIN, attributes)

    def _restore(self) -> None:
        saved, self._saved = self._saved, None
        if saved is not None and self._own_input is not None:
            termios.tcsetattr(self._own_input, termios.TCSADRAIN, saved)  # pyright: ignore[reportArgumentType]  # what tcgetattr gave

    def _copy_size(self) -> None:
        if self._master is not None and self._terminal is not None:
            try:
                termios.tcsetwinsize(self._master, termios.tcgetwinsize(self._terminal))
            except termios.error:
                pass

    def _in_foreground(self) -> bool:
        """A background job that touches the terminal's settings would be stopped for it."""
        if self._own_input is None:
            return False
        try:
            return os.tcgetpgrp(self._own_input) == os.getpgrp()
        except OSError:
            return True


def _note_signals() -> int:
    """From now on a signal is a byte in the pipe whose end is returned."""
    wake_read, wake_write = os.pipe()
    os.set_blocking(wake_write, False)
    signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
    for number in (*_PASSED_ON, signal.SIGWINCH, signal.SIGCONT):
        signal.signal(number, _noted)
    return wake_read


def _noted(_number: int, _frame: FrameType | None) -> None:
    """Signals arrive through the wake-up pipe."""


def _usable(descriptor: int) -> int:
    """The descriptor, or the null device where the caller has closed it."""
    try:
        os.fstat(descriptor)
    except OSError:
        return os.open("/dev/null", os.O_RDWR)
    return descriptor
