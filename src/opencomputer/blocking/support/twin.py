"""A blocking view of an object of the asynchronous SDK."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import Future
from typing import Any, TypeVar, cast

from opencomputer.blocking.support import loop

T = TypeVar("T")


class Twin:
    """Has no state of its own: every call is the same call of the asynchronous object behind it.

    Any thread may use it. What was made before a fork can only be used in the parent, whose connections it
    holds.
    """

    def __init__(self, wrapped: object) -> None:
        self._generation = loop.generation()
        self._adopt(wrapped)

    def __repr__(self) -> str:
        return repr(self._wrapped)

    def _adopt(self, wrapped: object) -> None:
        self._wrapped = wrapped

    def _run(self, call: Awaitable[T]) -> T:
        try:
            self._check()
        except RuntimeError:
            loop.discard(call)
            raise
        return loop.run(call)

    def _run_there(self, function: Callable[[], T]) -> T:
        """Call something that does not wait, but must happen on the loop."""

        async def called() -> T:
            return function()

        return self._run(called())

    def _begin(self, make: Callable[[], Awaitable[T]]) -> Future[T]:
        """A future for any thread of something that is awaited on the loop."""

        async def awaited() -> T:
            return await make()

        self._check()
        return loop.begin(awaited())

    def _self_or(self, kind: type[V], original: object) -> V:
        """This very object where the asynchronous one gave itself."""
        return cast("V", self) if original is self._wrapped else view(kind, original)

    def _check(self) -> None:
        if self._generation != loop.generation():
            raise RuntimeError(
                f"{type(self).__name__} was made before this process was forked: make it again in the child"
            )


V = TypeVar("V", bound=Twin)


class MappingTwin(Twin, dict[str, Any]):
    """A view of what is a dictionary as well. Its items are those of the last call."""

    def __repr__(self) -> str:
        return repr(dict(self))

    def _adopt(self, wrapped: object) -> None:
        super()._adopt(wrapped)
        self._renew()

    def _run(self, call: Awaitable[T]) -> T:
        try:
            return super()._run(call)
        finally:
            self._renew()

    def _renew(self) -> None:
        self.clear()
        self.update(cast("dict[str, Any]", self._wrapped))


def view(kind: type[V], original: object) -> V:
    """The view of an object; `kind` is the twin of its class."""
    made = kind.__new__(kind)
    Twin.__init__(made, original)
    return made


def views(kind: type[V], originals: Iterable[Any]) -> list[V]:
    """The views of several objects."""
    return [view(kind, each) for each in originals]


def view_if_any(kind: type[V], original: object) -> V | None:
    """The view of an object that may be None."""
    return None if original is None else view(kind, original)
