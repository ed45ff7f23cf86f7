# Generated from src/opencomputer/sdk/scaling.py by scripts/generate_blocking.py
"""The blocking twins of `opencomputer.sdk.scaling`; see there."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from opencomputer.blocking.support.twin import Twin

if TYPE_CHECKING:
    from opencomputer.sdk import scaling as sdk
    from opencomputer.sdk.answers import Described


class SandboxScaling(Twin):
    """What a `Sandbox` can do about its size."""

    def scale(self, memory_mb: int) -> Described:
        """Give it another size while it runs: `{sandboxID, memoryMB, cpuPercent, …}`. Autoscaling ends.

        Sizes are 1024, 4096, 8192 and 16384 MB, with 1, 1, 2 and 4 processors. Its programs go on. Raises
        `ScalingLockedError`, `PlanLimitError`, and `ConflictError` (code "oom_floor") when it uses more.
        """
        return self._run(self._original.scale(memory_mb))

    def set_autoscale(
        self, enabled: bool, *, min_memory_mb: int | None = None, max_memory_mb: int | None = None
    ) -> Described:
        """Let its size follow its use of memory, between two sizes, or stop that.

        Returns `{sandboxID, enabled, minMemoryMB, maxMemoryMB}`, and raises as `scale` does.
        """
        return self._run(
            self._original.set_autoscale(enabled, min_memory_mb=min_memory_mb, max_memory_mb=max_memory_mb)
        )

    def get_autoscale(self) -> Described:
        """Whether its size follows its use of memory: `{sandboxID, enabled, minMemoryMB, maxMemoryMB}`."""
        return self._run(self._original.get_autoscale())

    def set_scaling_lock(self, locked: bool) -> Described:
        """Keep its size as it is, which also switches autoscaling off, or let it be changed again."""
        return self._run(self._original.set_scaling_lock(locked))

    def get_scaling_lock(self) -> Described:
        """Whether its size is locked: `{sandboxID, locked}`."""
        return self._run(self._original.get_scaling_lock())

    @property
    def _original(self) -> sdk.SandboxScaling:
        return cast("sdk.SandboxScaling", self._wrapped)
