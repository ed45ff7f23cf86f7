"""What size a sandbox may get, and when it gets another one by itself (behaviour section 27). Pure."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from opencomputer.server.domain.errors import InvalidInput, OomFloor, PlanLimit, ScalingLocked
from opencomputer.server.domain.limits import TIERS
from opencomputer.server.domain.sandbox import Elasticity

SAMPLE_SECONDS = 30.0
UP_SHARE = 0.75
DOWN_SHARE = 0.25
UP_COOLDOWN = timedelta(seconds=60)
DOWN_COOLDOWN = timedelta(minutes=5)

_UP_WINDOW = 60.0
_DOWN_WINDOWS = (60.0, 300.0, 900.0)
_LEAST_UP_SAMPLES = 2
_LEAST_DOWN_SAMPLES = 30
_KEPT_SECONDS = 1200.0
"""Longer than the longest window, so that 30 samples are there although each came a little late."""
_SPARE_DIVISOR = 20
"""A twentieth more than is used now must fit into a smaller size."""


@dataclass(frozen=True)
class Bounds:
    """The sizes between which autoscaling moves, both included."""

    min_memory_mb: int
    max_memory_mb: int


def check_unlocked(elasticity: Elasticity) -> None:
    if elasticity.locked:
        raise ScalingLocked


def check_cap(memory_mb: int, cap_mb: int | None, field: str) -> None:
    """Raises PlanLimit for what no tier could make right."""
    if cap_mb is not None and memory_mb > cap_mb:
        raise PlanLimit(f"{field} must be at most {cap_mb} on this server", field=field)


def wanted_memory(memory_mb: int | None, cpu_percent: int | None) -> int:
    """The memory that is meant: processors alone stand for the smallest size that has them."""
    if memory_mb is not None:
        return memory_mb
    if cpu_percent is None:
        raise InvalidInput("memoryMB: a size is required", field="memoryMB")
    found = [memory for memory, cpus in TIERS.items() if 100 * cpus == cpu_percent]
    if not found:
        offered = ", ".join(str(100 * cpus) for cpus in sorted(set(TIERS.values())))
        raise InvalidInput(f"cpuPercent must be one of {offered}", field="cpuPercent")
    return min(found)


def check_tier(memory_mb: int, field: str) -> None:
    if memory_mb in TIERS:
        return
    offered = f"{field} must be one of {', '.join(map(str, TIERS))}"
    if memory_mb > max(TIERS):
        raise InvalidInput(f"{offered}; contact us for larger sizes", field=field)
    raise InvalidInput(offered, field=field)


def check_processors(memory_mb: int, cpu_percent: int | None) -> None:
    """Memory and processors come together."""
    fitting = 100 * TIERS[memory_mb]
    if cpu_percent is not None and cpu_percent != fitting:
        raise InvalidInput(
            f"cpuPercent must be {fitting} with memoryMB {memory_mb}; leave one of them out",
            field="cpuPercent",
        )


def check_size(
    elasticity: Elasticity, memory_mb: int | None, cpu_percent: int | None, cap_mb: int | None
) -> int:
    """The memory of the size asked for. Raises ScalingLocked, PlanLimit, InvalidInput, in that order."""
    check_unlocked(elasticity)
    wanted = wanted_memory(memory_mb, cpu_percent)
    check_cap(wanted, cap_mb, "memoryMB")
    check_tier(wanted, "memoryMB")
    check_processors(wanted, cpu_percent)
    return wanted


def check_floor(memory_mb: int, used_bytes: int | None) -> None:
    """Raises OomFloor when so much memory would not hold what is used now, and a little more."""
    if used_bytes is None:
        raise OomFloor("how much memory is used is not known right now; try again shortly")
    needed = used_bytes + used_bytes // _SPARE_DIVISOR
    if memory_mb << 20 < needed:
        raise OomFloor(
            f"{memory_mb} MB are too little: {used_bytes >> 20} MB are used, and a twentieth must be left",
            usedMB=used_bytes >> 20,
        )


def allowed_bounds(elasticity: Elasticity, memory_mb: int, cap_mb: int | None) -> Bounds:
    """The bounds that were set, or those that hold when none were: from the present size upwards."""
    largest = max((tier for tier in TIERS if cap_mb is None or tier <= cap_mb), default=memory_mb)
    low = memory_mb if elasticity.min_memory_mb is None else elasticity.min_memory_mb
    high = max(low, largest) if elasticity.max_memory_mb is None else elasticity.max_memory_mb
    return Bounds(low, high)


def check_bounds(elasticity: Elasticity, bounds: Bounds, cap_mb: int | None, *, enabled: bool) -> None:
    """Raises ScalingLocked, PlanLimit, InvalidInput, in that order. The first two only when switched on."""
    if enabled:
        check_unlocked(elasticity)
        check_cap(bounds.max_memory_mb, cap_mb, "maxMemoryMB")
    check_tier(bounds.min_memory_mb, "minMemoryMB")
    check_tier(bounds.max_memory_mb, "maxMemoryMB")
    if bounds.min_memory_mb > bounds.max_memory_mb:
        raise InvalidInput("minMemoryMB must not be greater than maxMemoryMB", field="minMemoryMB")


def with_lock(elasticity: Elasticity, *, locked: bool) -> Elasticity:
    """Locking switches autoscaling off, and unlocking does not switch it on again."""
    return replace(elasticity, locked=locked, autoscale=elasticity.autoscale and not locked)


@dataclass(frozen=True)
class Step:
    """What autoscaling does next."""

    memory_mb: int
    up: bool


@dataclass
class MemoryWindow:
    """How much memory a sandbox has used lately: (seconds of a monotonic clock, bytes), oldest first."""

    _samples: deque[tuple[float, int]] = field(default_factory=deque[tuple[float, int]])

    def add(self, at: float, used_bytes: int) -> None:
        self._samples.append((at, used_bytes))
        while self._samples[0][0] < at - _KEPT_SECONDS:
            self._samples.popleft()

    def step(self, memory_mb: int, bounds: Bounds) -> Step | None:
        """Where to from this size, cooldowns aside. None: nowhere."""
        limit = memory_mb << 20
        up = self._average(_UP_WINDOW, _LEAST_UP_SAMPLES)
        if up is not None and up > UP_SHARE * limit:
            return _step_up(memory_mb, bounds)
        averages = [self._average(seconds, 1) for seconds in _DOWN_WINDOWS]
        calm = all(average is not None and average < DOWN_SHARE * limit for average in averages)
        if calm and len(self._samples) >= _LEAST_DOWN_SAMPLES:
            return self._step_down(memory_mb, bounds)
        return None

    def _average(self, seconds: float, least: int) -> float | None:
        if not self._samples:
            return None
        since = self._samples[-1][0] - seconds
        recent = [used for at, used in self._samples if at > since]
        return sum(recent) / len(recent) if len(recent) >= least else None

    def _step_down(self, memory_mb: int, bounds: Bounds) -> Step | None:
        lower = [tier for tier in TIERS if bounds.min_memory_mb <= tier < memory_mb]
        if not lower:
            return None
        target = max(lower)
        # From 4096 to 1024 a quarter becomes the whole: it would be up again a minute later.
        if self._samples[-1][1] > UP_SHARE * (target << 20):
            return None
        return Step(target, up=False)


def _step_up(memory_mb: int, bounds: Bounds) -> Step | None:
    higher = [tier for tier in TIERS if memory_mb < tier <= bounds.max_memory_mb]
    return Step(min(higher), up=True) if higher else None


def may_step(elasticity: Elasticity, step: Step, now: datetime) -> bool:
    after = elasticity.up_after if step.up else elasticity.down_after
    return elasticity.autoscale and not elasticity.locked and (after is None or now >= after)


def after_step(elasticity: Elasticity, step: Step, now: datetime) -> Elasticity:
    """With the pause that begins with a step, whatever comes of it."""
    if step.up:
        return replace(elasticity, up_after=now + UP_COOLDOWN)
    return replace(elasticity, down_after=now + DOWN_COOLDOWN)
