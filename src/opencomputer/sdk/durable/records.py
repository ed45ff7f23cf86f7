"""What the server answers, as records: snake_case, with everything it sent kept in `raw`."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, Generic, Self, TypeVar

from opencomputer.sdk import answers
from opencomputer.sdk.answers import Described, JsonObject
from opencomputer.sdk.errors import UnexpectedAnswerError

T = TypeVar("T")

# Servers may send these as text, because they can be larger than what some languages count exactly.
_NUMBERS = frozenset(
    [
        "seq",
        "head",
        "input_cursor",
        "input_from_seq",
        "input_to_seq",
        "exit_code",
        "bytes",
        "body_bytes",
        "port",
        "num_turns",
        "revision",
        "tokens",
        "turn_seconds",
        "turns",
        "attempts",
        "response_code",
        "event_seq",
        "created_after_seq",
    ]
)
_OPAQUE = frozenset({"input", "manifest", "metadata", "payload", "raw", "refs", "vars"})
_WHOLE = re.compile(r"-?[0-9]{1,18}")


def part(of: type[Record], *, many: bool = False, default: object = MISSING) -> Any:
    """A field that is a record itself, or a list of them; a list is empty unless another default is given."""
    if many and default is MISSING:
        return field(default_factory=list[Any], metadata={"record": of, "many": True})
    return field(default=None, metadata={"record": of, "many": many})


@dataclass(frozen=True, kw_only=True)
class Record:
    """Something the server described. Fields that it left out have their defaults."""

    raw: Described = field(default_factory=dict[str, object], repr=False, compare=False)
    """Exactly what the server sent."""

    @property
    def extra(self) -> Described:
        """What the server sent and this version of the SDK has no field for."""
        known = {one.name for one in fields(self)}
        return {name: value for name, value in self.raw.items() if name not in known}

    @classmethod
    def read(cls, value: object) -> Self:
        """The record that a JSON object describes."""
        sent = answers.json_object(value)
        found: dict[str, Any] = {"raw": sent}
        for one in fields(cls):
            if one.name == "raw" or not one.init:
                continue
            given = sent.get(one.name)
            if given is not None:
                found[one.name] = _value(one.name, given, one.metadata)
            elif one.default is MISSING and one.default_factory is MISSING:
                raise UnexpectedAnswerError(f"the server's {cls.__name__} has no {one.name}")
        return cls(**found)


def number(name: str, value: object) -> object:
    """The value of a field, as a number where it is one that was sent as text."""
    if name in _NUMBERS and isinstance(value, str) and _WHOLE.fullmatch(value):
        return int(value)
    return value


def counted(name: str, value: object) -> object:
    """The same for all that is in it, but for what belongs to somebody else and must stay as it is."""
    if name in _OPAQUE:
        return value
    if answers.is_json_object(value):
        return {key: counted(key, each) for key, each in value.items()}
    if answers.is_json_array(value):
        return [counted("", each) for each in value]
    return number(name, value)


def _value(name: str, value: object, metadata: Mapping[str, Any]) -> object:
    kind: type[Record] | None = metadata.get("record")
    if kind is None:
        return counted(name, value)
    if metadata.get("many"):
        return [kind.read(each) for each in answers.json_objects(value)]
    return kind.read(value)


def inner(answer: JsonObject, name: str) -> JsonObject:
    """The record in an answer, which may be wrapped under its name or bare."""
    wrapped = answer.get(name)
    return answers.json_object(wrapped) if wrapped is not None and "id" not in answer else answer


@dataclass(frozen=True)
class Page(Generic[T]):
    """Some of a list. Iterating gives what is on it; `async for` goes on with the pages that follow."""

    data: Sequence[T]
    next_cursor: str | None = None
    more: Callable[[str], Awaitable[Page[T]]] | None = field(default=None, repr=False, compare=False)

    def __iter__(self) -> Iterator[T]:
        return iter(self.data)

    def __len__(self) -> int:
        return len(self.data)

    async def __aiter__(self) -> AsyncGenerator[T]:
        page: Page[T] | None = self
        while page is not None:
            for each in page.data:
                yield each
            page = await page.following()

    async def following(self) -> Page[T] | None:
        """The next page; None when this is the last."""
        if self.next_cursor is None or self.more is None:
            return None
        return await self.more(self.next_cursor)


def page_of(
    answer: object,
    kind: Callable[[object], T],
    more: Callable[[str], Awaitable[Page[T]]] | None = None,
    *,
    name: str = "data",
) -> Page[T]:
    """A page from `{data, next_cursor}`, or from a bare list; `name` where the data is called otherwise."""
    if answers.is_json_array(answer):
        return Page([kind(each) for each in answer])
    sent = answers.json_object(answer)
    data = [kind(each) for each in answers.json_objects(sent.get(name, sent.get("data")))]
    cursor = sent.get("next_cursor")
    return Page(data, str(cursor) if cursor is not None else None, more)
