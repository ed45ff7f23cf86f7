"""Things whose every call passes through a tap: there a process can die, and virtual time stands still."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from contextlib import contextmanager
from typing import Any, TypeVar, cast

from tests.support.virtual_time import VirtualTimeLoop

_T = TypeVar("_T")


class Dead(BaseException):
    """The process has died: nothing that it still does has an effect."""


class Tap:
    """Counts what a process does to the outside, and ends it before or after the nth of these."""

    def __init__(self) -> None:
        self.points = 0
        self.dies_at: int | None = None
        self.dead = False
        self.on_death: Callable[[], object] = lambda: None
        self.calls: list[str] = []

    def point(self, name: str) -> None:
        """The process may die here."""
        if self.dead:
            raise Dead(name)
        self.points += 1
        self.calls.append(name)
        if self.points == self.dies_at:
            self.die()
            raise Dead(name)

    def die(self) -> None:
        self.dead = True
        self.on_death()

    def through(self, target: _T, *, blocking: bool = False) -> _T:
        """The same, with each call of a coroutine function passing by. `blocking`: threads do its work."""
        return cast("_T", _Tapped(target, self, blocking))


class _Tapped:
    def __init__(self, target: Any, tap: Tap, blocking: bool) -> None:
        self._target = target
        self._tap = tap
        self._blocking = blocking

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._target, name)
        if not inspect.iscoroutinefunction(found):
            return found

        async def call(*args: Any, **named: Any) -> Any:
            self._tap.point(f"before {name}")
            if self._blocking:
                with _standing_still():
                    result = await found(*args, **named)
            else:
                result = await found(*args, **named)
            self._tap.point(f"after {name}")
            return result

        return call


@contextmanager
def _standing_still() -> Any:
    loop = asyncio.get_running_loop()
    if not isinstance(loop, VirtualTimeLoop):
        yield
        return
    with loop.standing_still():
        yield
