"""What an asynchronous generator gives, for an ordinary loop."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from types import TracebackType
from typing import Generic, Self, TypeVar

from opencomputer.blocking.support import loop
from opencomputer.blocking.support.twin import Twin

T = TypeVar("T")


class Stream(Twin, Iterator[T], Generic[T]):
    """An iterator that waits for each item. Leaving the loop early closes what is behind it.

    That happens when the iterator is let go of; `close`, or using it as a context manager, makes it happen
    at once.
    """

    # There is no __del__: the loop closes generators that nobody holds any more, whichever thread drops
    # them, because it was there when they began.

    def __init__(self, items: AsyncIterator[T]) -> None:
        super().__init__(items)
        self._items = items
        self._closed = False

    def __next__(self) -> T:
        if self._closed:
            raise StopIteration
        try:
            return self._run(self._next())
        except StopAsyncIteration:
            raise StopIteration from None

    def close(self) -> None:
        """Stop, and close what is behind it; may be called again."""
        self._closed = True
        aclose = getattr(self._items, "aclose", None)
        if aclose is not None and self._generation == loop.generation():
            self._run(aclose())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def _next(self) -> T:
        return await anext(self._items)
