"""One process that the host asked for: its output, its readers, its timers and its end."""

from __future__ import annotations

import os
import signal
import time
from collections import deque

from . import protocol
from .loop import Loop, Timer
from .pacing import Pace
from .protocol import JsonObject
from .scrollback import Scrollback
from .spawning import Program, Spawner, StartError, resize_terminal
from .streams import Input, Outputs
from .trees import tell_session_of_size

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .attachment import Attachment
    from .children import Children
    from .trees import Trees

QUIET_SECONDS = 0.25
"""Once the process has ended: how long its outputs, still held open by others, must be silent."""
DRAIN_SECONDS = 2.0
"""Once the process has ended: how long others who hold its outputs are listened to at most."""
RETENTION_SECONDS = 300.0
_MOST_LEFT = 1024 * 1024
"""More than an ended process can have left in a pipe."""
_MOST_SCROLLBACK = 64 * 1024 * 1024
_MOST_RECORDED_ARGUMENTS = 64 * 1024
_MOST_LABELS = 64 * 1024
_END_OF_TRANSMISSION = b"\x04"


class Exit:
    """How a process ended."""

    __slots__ = ("code", "error", "reason", "signal")

    def __init__(
        self, code: int, signal: int | None = None, reason: str | None = None, error: str | None = None
    ) -> None:
        self.code = code
        self.signal = signal
        self.reason = reason
        self.error = error

    def to_json(self) -> JsonObject:
        return {"code": self.code, "signal": self.signal, "reason": self.reason, "error": self.error}


class SessionRequest:
    """What the host asked for, as it came over the wire."""

    def __init__(self, fields: JsonObject) -> None:
        self.id = protocol.text(fields, "id")
        self.kind = protocol.text(fields, "kind")
        self.argv = protocol.texts(fields, "argv")
        self.environment = protocol.text_map(fields, "environment")
        self.cwd = protocol.optional_text(fields, "cwd")
        self.user = protocol.text(fields, "user")
        self.stdin = protocol.flag(fields, "stdin")
        self.timeout = protocol.optional_number(fields, "timeout_seconds")
        self.linger = protocol.optional_number(fields, "linger_seconds")
        self.scrollback = protocol.integer(fields, "scrollback_bytes", most=_MOST_SCROLLBACK)
        self.labels = protocol.text_map(fields, "labels")
        self.terminal: tuple[int, int] | None = None
        if fields.get("terminal") is not None:
            size = protocol.as_object(fields["terminal"])
            self.terminal = (
                protocol.integer(size, "columns", least=1, most=65535),
                protocol.integer(size, "rows", least=1, most=65535),
            )
        if not self.argv or not self.argv[0]:
            raise protocol.ProtocolError("argv must name a program")
        if any("\0" in text for text in (*self.argv, *self.environment.values(), self.cwd or "")):
            raise protocol.ProtocolError("arguments, environment and directory cannot contain NUL")
        if any(not name or "=" in name or "\0" in name for name in self.environment):
            raise protocol.ProtocolError("an environment variable has an impossible name")


class Surroundings:
    """What every session needs from the guest."""

    __slots__ = ("children", "loop", "spawner", "trees")

    def __init__(self, loop: Loop, children: Children, spawner: Spawner, trees: Trees) -> None:
        self.loop = loop
        self.children = children
        self.spawner = spawner
        self.trees = trees


class Session:
    """States: running, ended (its process is gone, output still coming), finished (`exit` is known)."""

    def __init__(
        self, around: Surroundings, request: SessionRequest, on_retired: Callable[[Session], None]
    ) -> None:
        self._around = around
        self._request = request
        self._tree = around.trees.new(request.id)
        self._on_retired = on_retired
        self.id = request.id
        self.labels = dict(request.labels)
        self.scrollback = Scrollback(request.scrollback)
        self.started_at = time.time()
        self.exit: Exit | None = None
        self.pid: int | None = None
        self._status: int | None = None
        self._ended_at = 0.0
        self._last_output_at = 0.0
        self._reason: str | None = None
        self._signals_sent: set[int] = set()
        self._signal_requests: deque[str] = deque(maxlen=32)
        self._input: Input | None = None
        self._outputs: Outputs | None = None
        # Whoever starts a session attaches next; only commands that run to their end have no such reader.
        self._reader_expected = request.kind != "run"
        self._pace = Pace(around.loop, request.scrollback, self._hold_outputs, self._release_outputs)
        self._terminal: int | None = None
        self.attachments: dict[str, Attachment] = {}
        self._read_up_to = 0
        self._timeout: Timer | None = None
        self._linger: Timer | None = None

    def start(self, program: Program) -> None:
        """Start the process. One that cannot start is a session that has finished."""
        request = self._request
        spawner = self._around.spawner
        try:
            with self._tree.joining():
                if request.terminal is None:
                    started = spawner.start_piped(program, stdin=request.stdin)
                else:
                    started = spawner.start_in_terminal(program, *request.terminal)
        except StartError as error:
            self.scrollback.append(
                1 if request.terminal else 2, f"{error.message}\n".encode(errors="surrogateescape")
            )
            self._finish(Exit(error.code, error=error.message))
            return
        self.pid = started.pid
        self._tree.rooted_at(started.pid)
        self._around.children.register(started.pid, self._on_process_end)
        if request.terminal is not None:
            self._terminal = started.outputs[1]
            started.input = os.dup(started.outputs[1])
        if started.input is not None:
            self._input = Input(self._around.loop, started.input)
        self._outputs = Outputs(self._around.loop, started.outputs, self._on_output, self._on_outputs_end)
        if request.timeout is not None:
            self._timeout = self._around.loop.call_later(request.timeout, self._on_timeout)

    def to_json(self) -> JsonObject:
        return {
            "id": self.id,
            "kind": self._request.kind,
            "argv": _shortened(self._request.argv),
            "started_at": self.started_at,
            "attached": sum(each.counted for each in self.attachments.values()),
            "exit": None if self.exit is None else self.exit.to_json(),
            "labels": self.labels,
        }

    # Readers and writers

    def attach(self, attachment: Attachment) -> None:
        """Take in a new reader. A terminal has one reader at a time: the newest."""
        if self._request.terminal is not None:
            for other in list(self.attachments.values()):
                self.detach(other)
                other.release("replaced")
        self.attachments[attachment.id] = attachment
        self._reader_expected = self._reader_expected and not attachment.counted
        if attachment.counted and self._linger is not None:
            self._linger.cancel()
            self._linger = None

    def detach(self, attachment: Attachment) -> None:
        """Let a reader go; without counted readers the process may only linger."""
        if self.attachments.get(attachment.id) is not attachment:
            return
        del self.attachments[attachment.id]
        self._update_pace()
        if self.exit is not None or self._request.linger is None or not attachment.counted:
            return
        if not any(each.counted for each in self.attachments.values()):
            self._linger = self._around.loop.call_later(self._request.linger, self._on_lingered)

    def read_up_to(self, offset: int) -> None:
        self._read_up_to = max(self._read_up_to, offset)
        self._update_pace()

    @property
    def first_unread(self) -> int:
        """The offset of the first byte that no attachment has read."""
        return self._read_up_to

    def write_input(self, data: bytes, consumed: Callable[[int], None]) -> None:
        if self._input is None:
            consumed(len(data))
        else:
            self._input.write(data, consumed)

    def end_input(self) -> None:
        if self._input is None:
            return
        if self._terminal is not None:
            self._input.write(_END_OF_TRANSMISSION, lambda _count: None)
        else:
            self._input.end()

    # Control

    def signal(self, number: int, request_id: str) -> None:
        """Send a signal to the process's group, SIGKILL to its whole tree; once for each `request_id`."""
        if self._status is not None or self.pid is None or request_id in self._signal_requests:
            return
        self._signal_requests.append(request_id)
        self._signals_sent.add(number)
        if number == signal.SIGKILL:
            self._tree.kill()
            return
        try:
            os.killpg(self.pid, number)
        except ProcessLookupError:
            pass

    def resize(self, columns: int, rows: int) -> None:
        if self._terminal is not None and self.pid is not None:
            resize_terminal(self._terminal, columns, rows)
            tell_session_of_size(self.pid)

    def label(self, labels: dict[str, str]) -> None:
        merged = {**self.labels, **labels}
        if sum(len(key) + len(value) for key, value in merged.items()) > _MOST_LABELS:
            raise protocol.ProtocolError("too many labels")
        self.labels = merged

    # What happens to it

    def _on_output(self, channel: int, data: bytes) -> None:
        if self.exit is not None:
            return  # from others who still hold the outputs; the session's story is told
        self.scrollback.append(channel, data)
        self._last_output_at = time.monotonic()
        self._wake_attachments()
        self._update_pace()

    def _on_outputs_end(self) -> None:
        self._terminal = None
        if self._status is not None and self.exit is None:
            self._finish_with_status()

    def _on_process_end(self, status: int) -> None:
        self._status = status
        self._ended_at = time.monotonic()
        for timer in (self._timeout, self._linger):
            if timer is not None:
                timer.cancel()
        if self._outputs is None or self._outputs.ended:
            self._finish_with_status()
        else:
            self._around.loop.call_later(QUIET_SECONDS, self._on_quiet_check)

    def _on_quiet_check(self) -> None:
        if self.exit is not None:
            return
        # The loop serves timers first: where it was late, what the process wrote is still to be read.
        if self._outputs is not None:
            self._outputs.read_now(_MOST_LEFT)
        if self.exit is not None:
            return
        now = time.monotonic()
        last = now if self._pace.holding else self._last_output_at
        quiet_at = max(self._ended_at, last) + QUIET_SECONDS
        finish_at = min(quiet_at, self._ended_at + DRAIN_SECONDS)
        if now >= finish_at:
            self._finish_with_status()
        else:
            self._around.loop.call_later(finish_at - now, self._on_quiet_check)

    def _on_timeout(self) -> None:
        self._reason = "timeout"
        self._tree.kill()

    def _on_lingered(self) -> None:
        self._reason = "disconnected"
        self._tree.kill()

    def _finish_with_status(self) -> None:
        code = os.waitstatus_to_exitcode(self._status or 0)
        if code >= 0:
            self._finish(Exit(code, reason=self._reason))
            return
        number = -code
        reason = self._reason or ("killed" if number in self._signals_sent else None)
        self._finish(Exit(128 + number, number, reason))

    def _finish(self, exit: Exit) -> None:
        self.exit = exit
        self._tree.dispose()
        if self._input is not None:
            self._input.close()
        self._wake_attachments()
        self._update_pace()
        self._around.loop.call_later(RETENTION_SECONDS, self._retire)

    def _retire(self) -> None:
        for attachment in list(self.attachments.values()):
            self.detach(attachment)
            attachment.release("retired")
        self._on_retired(self)

    def _update_pace(self) -> None:
        """Those who are not counted take what they get: nobody waits for them. At the end nobody waits."""
        waited_for = [each.read for each in self.attachments.values() if each.counted]
        if self._reader_expected:
            waited_for.append(0)
        fastest = max(waited_for) if waited_for and self.exit is None else None
        self._pace.update(self.scrollback.end, fastest)

    def _hold_outputs(self) -> None:
        if self._outputs is not None:
            self._outputs.hold()

    def _release_outputs(self) -> None:
        if self._outputs is not None:
            self._outputs.release()

    def _wake_attachments(self) -> None:
        for attachment in self.attachments.values():
            attachment.wake()


def _shortened(argv: list[str]) -> list[str]:
    room = _MOST_RECORDED_ARGUMENTS
    kept: list[str] = []
    for argument in argv:
        if len(argument) > room:
            kept.append(argument[:room] + "…")
            break
        kept.append(argument)
        room -= len(argument)
    return kept
