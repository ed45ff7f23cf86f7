"""What sandboxes used in a period: intervals, cut to it, added up, filtered, grouped and put in order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from opencomputer.server.domain.metering import Interval, Meter
from opencomputer.server.domain.sandbox import SandboxState
from opencomputer.server.domain.tags import Tags
from opencomputer.wire.ids import OrgId, SandboxId


@dataclass(frozen=True, slots=True)
class Window:
    """From one second until another, which is not in it any more."""

    begin: int
    end: int

    def until(self, second: int) -> Window:
        """What of it has come."""
        return Window(self.begin, max(self.begin, min(self.end, second)))


@dataclass(frozen=True, slots=True)
class Amounts:
    """MB times seconds."""

    memory: int = 0
    disk: int = 0

    def __add__(self, other: Amounts) -> Amounts:
        return Amounts(self.memory + other.memory, self.disk + other.disk)

    def of(self, meter: Meter) -> int:
        return self.memory if meter is Meter.MEMORY else self.disk


@dataclass(frozen=True)
class TagFilter:
    """Keeps sandboxes whose tag has one of these values; the empty one stands for those without the tag."""

    key: str
    values: frozenset[str]

    def admits(self, value: str | None) -> bool:
        if value is None:
            return "" in self.values
        return value != "" and value in self.values


@dataclass(frozen=True)
class Place:
    """Where a page ended: what its last item had used, and its name."""

    amount: int
    name: str


@dataclass(frozen=True)
class UsageQuestion:
    """`tag` is the key whose values are told apart; None: sandboxes are. `order` comes first, most first."""

    org_id: OrgId
    window: Window
    tag: str | None
    order: Meter
    limit: int
    filters: tuple[TagFilter, ...] = ()
    after: Place | None = None


@dataclass(frozen=True)
class Group:
    """What sandboxes of one name have used: of one sandbox, or of one value of a tag."""

    name: str
    amounts: Amounts
    sandboxes: int = 1


@dataclass(frozen=True)
class Described:
    """How a sandbox is shown beside its numbers."""

    alias: str | None
    state: SandboxState
    tags: Tags


@dataclass(frozen=True)
class UsagePage:
    """`total` is of everything that matched, whatever is on the page. `untagged` has no name, and is among
    the groups of no page. `described` has the sandboxes of the page where those are the groups."""

    total: Amounts
    groups: Sequence[Group]
    following: Place | None
    untagged: Group
    described: Mapping[SandboxId, Described]


def spans(intervals: Iterable[Interval], now: int) -> Iterator[tuple[Interval, int, int]]:
    """Each interval with the seconds from which and until which it counts.

    They come in the order in which they began. Two of one meter overlap only where the clock was set back
    meanwhile: the time that came twice counts once.
    """
    reached: dict[Meter, dict[SandboxId, int]] = {meter: {} for meter in Meter}
    for each in intervals:
        ends = reached[each.meter]
        begin = max(each.begin, ends.get(each.sandbox_id, each.begin))
        end = now if each.end is None else each.end
        if begin < end:
            ends[each.sandbox_id] = end
            yield each, begin, end


def used(intervals: Iterable[Interval], window: Window, now: int) -> dict[SandboxId, Amounts]:
    """What each sandbox used, of those that have an interval in the window."""
    window = window.until(now)
    sums: dict[Meter, dict[SandboxId, int]] = {meter: {} for meter in Meter}
    for each, begin, end in spans(intervals, now):
        seconds = min(end, window.end) - max(begin, window.begin)
        if seconds > 0:
            of_meter = sums[each.meter]
            of_meter[each.sandbox_id] = of_meter.get(each.sandbox_id, 0) + seconds * each.megabytes
    memory, disk = sums[Meter.MEMORY], sums[Meter.DISK]
    return {each: Amounts(memory.get(each, 0), disk.get(each, 0)) for each in memory.keys() | disk.keys()}


def matching(
    amounts: Mapping[SandboxId, Amounts],
    filters: Iterable[TagFilter],
    values: Mapping[str, Mapping[SandboxId, str]],
) -> dict[SandboxId, Amounts]:
    """Those that all filters admit. `values` has, by key, the values of the sandboxes that have the tag."""
    found = dict(amounts)
    for each in filters:
        of_key = values[each.key]
        found = {name: amount for name, amount in found.items() if each.admits(of_key.get(name))}
    return found


def total_of(amounts: Iterable[Amounts]) -> Amounts:
    memory = disk = 0
    for each in amounts:
        memory += each.memory
        disk += each.disk
    return Amounts(memory, disk)


def by_sandbox(amounts: Mapping[SandboxId, Amounts]) -> list[Group]:
    return [Group(name, amount) for name, amount in amounts.items()]


def by_value(amounts: Mapping[SandboxId, Amounts], values: Mapping[SandboxId, str]) -> list[Group]:
    """One group for each value of a tag."""
    members: dict[str, list[Amounts]] = {}
    for name, amount in amounts.items():
        if (value := values.get(name)) is not None:
            members.setdefault(value, []).append(amount)
    return [Group(value, total_of(each), len(each)) for value, each in members.items()]


def without(amounts: Mapping[SandboxId, Amounts], values: Mapping[SandboxId, str]) -> Group:
    """What the sandboxes used that do not have the tag."""
    rest = [amount for name, amount in amounts.items() if name not in values]
    return Group("", total_of(rest), len(rest))


def page_of(
    groups: Iterable[Group], order: Meter, limit: int, after: Place | None
) -> tuple[list[Group], Place | None]:
    """The groups after a place, and where the next page begins to look; None: there is none.

    Groups that used the same are in the order of their names, so that none is on two pages, nor on none.
    """
    placed = sorted((-each.amounts.of(order), each.name, each) for each in groups)
    if after is not None:
        placed = [each for each in placed if each[:2] > (-after.amount, after.name)]
    page = [each for *_, each in placed[:limit]]
    following = Place(page[-1].amounts.of(order), page[-1].name) if len(placed) > limit else None
    return page, following
