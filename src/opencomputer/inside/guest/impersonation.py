"""A thread that does one thing as another user, so that PID 1 itself is root at every moment.

A process whose own user id were the sandbox user's, even for a millisecond, could be killed by that user.
"""

from __future__ import annotations

import threading

from .syscalls import ThreadCredentials

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    from .users import User

    Result = TypeVar("Result")


class Impersonator:
    """`call_as` waits for its thread: nothing else of the guest runs meanwhile."""

    def __init__(self) -> None:
        self._credentials = ThreadCredentials()
        self._wanted = threading.Semaphore(0)
        self._done = threading.Semaphore(0)
        self._step: Callable[[], None] | None = None
        threading.Thread(target=self._serve, daemon=True).start()

    def call_as(self, user: User, action: Callable[[], Result]) -> Result:
        """What `action` returns, or raises, when it is run as `user`."""
        if user.uid == 0:
            return action()
        results: list[Result] = []
        errors: list[BaseException] = []

        def step() -> None:
            try:
                self._credentials.become(user)
                try:
                    results.append(action())
                finally:
                    self._credentials.return_to_root()
            except BaseException as error:
                errors.append(error)

        self._step = step
        self._wanted.release()
        self._done.acquire()
        if errors:
            raise errors[0]
        return results[0]

    def _serve(self) -> None:
        while True:
            self._wanted.acquire()
            if self._step is not None:
                self._step()
            self._done.release()
