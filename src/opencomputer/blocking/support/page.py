"""A page of a list."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Generic, TypeVar, cast

from opencomputer.blocking.support.stream import Stream
from opencomputer.blocking.support.twin import Twin
from opencomputer.sdk.durable import records

T = TypeVar("T")


class Page(Twin, Generic[T]):
    """Some of a list. `data` is what is on it; a loop goes on with the pages that follow."""

    def __init__(self, page: records.Page[T]) -> None:
        super().__init__(page)

    @property
    def data(self) -> Sequence[T]:
        """What is on this page."""
        return self._original.data

    @property
    def next_cursor(self) -> str | None:
        """Where the next page begins; None on the last."""
        return self._original.next_cursor

    def __iter__(self) -> Iterator[T]:
        return Stream(aiter(self._original))

    def following(self) -> Page[T] | None:
        """The next page; None when this is the last."""
        page = self._run(self._original.following())
        return None if page is None else Page(page)

    @property
    def _original(self) -> records.Page[T]:
        return cast("records.Page[T]", self._wrapped)
