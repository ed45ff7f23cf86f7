"""How many machines to keep ready, and whether one more fits. Pure arithmetic."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class PoolPolicy:
    """`memory_share` of the host's memory may be held by ready machines of `machine_bytes` each.

    `minimum` is kept without any demand; None means half of what the share affords.
    """

    memory_share: float
    machine_bytes: int
    minimum: int | None
    maximum: int


def pool_target(policy: PoolPolicy, host_memory_bytes: int, recent_claims: int) -> int:
    """The number of ready machines to aim for.

    Twice the recent demand, at least the minimum, never more than the memory share or the maximum.
    """
    affordable = int(host_memory_bytes * policy.memory_share) // max(policy.machine_bytes, 1)
    ceiling = max(0, min(policy.maximum, affordable))
    minimum = (ceiling + 1) // 2 if policy.minimum is None else policy.minimum
    return min(ceiling, max(minimum, 2 * recent_claims))


@dataclass(frozen=True)
class HostLoad:
    """What a host has and what is in use. Memory is what is really resident, not what was promised."""

    available_memory_bytes: int
    total_memory_bytes: int
    disk_free_bytes: int
    disk_total_bytes: int
    machines: int


@dataclass(frozen=True)
class AdmissionPolicy:
    """Overcommit is deliberate: only what is really used counts (behaviour 3.4)."""

    machine_bytes: int
    memory_reserve_share: float = 0.05
    disk_reserve_share: float = 0.05
    disk_reserve_bytes: int = 50 << 30
    maximum_machines: int = 4000


def refusal(policy: AdmissionPolicy, load: HostLoad) -> str | None:
    """Why one more machine does not fit, or None when it does."""
    if load.machines >= policy.maximum_machines:
        return f"this host runs its maximum of {policy.maximum_machines} machines"
    if (reason := growth_refusal(policy, load)) is not None:
        return reason
    # A share alone would waste terabytes on a large disk, an absolute figure alone would block a small one.
    disk_reserve = min(policy.disk_reserve_bytes, int(load.disk_total_bytes * policy.disk_reserve_share))
    if load.disk_free_bytes < disk_reserve:
        return "the host's disk is nearly full"
    return None


def growth_refusal(policy: AdmissionPolicy, load: HostLoad) -> str | None:
    """Why a machine may not get more memory, or None when it may. It is taken only when it is used."""
    reserve = int(load.total_memory_bytes * policy.memory_reserve_share)
    if load.available_memory_bytes - policy.machine_bytes < reserve:
        return "the host's memory is in use"
    return None
