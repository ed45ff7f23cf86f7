"""The event loop: one thread, epoll, timers, and a way in for worker threads and signals.

Small on purpose: the guest must start fast, stay small, and never run two of its own steps at once.
"""

from __future__ import annotations

import heapq
import os
import select
import time
import traceback
from collections import deque

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

READ = select.EPOLLIN
WRITE = select.EPOLLOUT


class Timer:
    """One callback at one time. `cancel` is idempotent and final."""

    __slots__ = ("_callback", "when")

    def __init__(self, when: float, callback: Callable[[], None]) -> None:
        self.when = when
        self._callback: Callable[[], None] | None = callback

    def __lt__(self, other: Timer) -> bool:
        return self.when < other.when

    def cancel(self) -> None:
        self._callback = None

    @property
    def cancelled(self) -> bool:
        return self._callback is None

    def fire(self) -> None:
        callback, self._callback = self._callback, None
        if callback is not None:
            callback()


def log(message: str) -> None:
    """Say something on standard error, which never blocks and may be lost."""
    try:
        os.write(2, f"guest: {message}\n".encode(errors="replace"))
    except OSError:
        pass


class Loop:
    """Calls back on ready descriptors, due timers and wake-ups. A callback that raises is logged.

    Due timers come first, and between any two callbacks: on a machine that a fork bomb keeps busy each
    callback may take seconds, and it is a timer that ends the bomb.
    """

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._watched: dict[int, Callable[[int], None]] = {}
        self._timers: list[Timer] = []
        self._soon: deque[Callable[[], None]] = deque()
        self._from_threads: deque[Callable[[], None]] = deque()
        self._running = False
        self._wake_read, self.wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self.watch(self._wake_read, READ, self._woken)
        self.on_wake: Callable[[], None] | None = None
        """Called whenever a byte was written to `wake_write`, as signals do."""

    def watch(self, fd: int, events: int, callback: Callable[[int], None]) -> None:
        """Call `callback(ready events)` while `fd` is ready. It may be called when it is not."""
        if fd in self._watched:
            self._epoll.modify(fd, events)
        else:
            self._epoll.register(fd, events)
        self._watched[fd] = callback

    def unwatch(self, fd: int) -> None:
        if self._watched.pop(fd, None) is not None:
            self._epoll.unregister(fd)

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        timer = Timer(time.monotonic() + seconds, callback)
        heapq.heappush(self._timers, timer)
        return timer

    def call_soon(self, callback: Callable[[], None]) -> None:
        """Call back after what is running now, in this turn of the loop or the next."""
        self._soon.append(callback)

    def call_from_thread(self, callback: Callable[[], None]) -> None:
        self._from_threads.append(callback)
        try:
            os.write(self.wake_write, b"\0")
        except BlockingIOError:
            pass  # the pipe is full of wake-ups already

    def stop(self) -> None:
        self._running = False

    def run(self) -> None:
        self._running = True
        while self._running:
            ready = self._poll()
            self._fire_timers()
            for fd, events in ready:
                callback = self._watched.get(fd)
                if callback is not None:
                    self._guarded(callback, events)
                    self._fire_timers()
            for _ in range(len(self._soon)):
                self._guarded(self._soon.popleft())

    def close(self) -> None:
        self._epoll.close()
        os.close(self._wake_read)
        os.close(self.wake_write)

    def _poll(self) -> list[tuple[int, int]]:
        while self._timers and self._timers[0].cancelled:
            heapq.heappop(self._timers)
        timeout: float | None = None
        if self._soon:
            timeout = 0
        elif self._timers:
            timeout = max(0.0, self._timers[0].when - time.monotonic())
        return self._epoll.poll(timeout, 256)

    def _fire_timers(self) -> None:
        now = time.monotonic()
        while self._timers and self._timers[0].when <= now:
            self._guarded(heapq.heappop(self._timers).fire)

    def _woken(self, _events: int) -> None:
        try:
            while len(os.read(self._wake_read, 4096)) == 4096:
                pass
        except BlockingIOError:
            pass
        if self.on_wake is not None:
            self.on_wake()
        while self._from_threads:
            self._guarded(self._from_threads.popleft())

    def _guarded(self, callback: Callable[..., None], *arguments: int) -> None:
        try:
            callback(*arguments)
        except Exception:
            # The last line of defence: PID 1 must outlive every mistake of its own.
            log(traceback.format_exc())
