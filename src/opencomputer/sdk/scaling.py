"""The size of a sandbox, and what may change it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opencomputer.sdk import answers
from opencomputer.sdk.control_plane import Call, get

if TYPE_CHECKING:
    from opencomputer.sdk.answers import Described, JsonObject
    from opencomputer.sdk.sandbox_link import SandboxLink


def scale(link: SandboxLink, memory_mb: int) -> Call:
    """Another size. Asking twice is as good as asking once."""
    return Call("POST", link.path("scale"), repeatable=True, json={"memoryMB": memory_mb})


def set_autoscale(
    link: SandboxLink, enabled: bool, min_memory_mb: int | None, max_memory_mb: int | None
) -> Call:
    """Autoscaling on or off; bounds that are None stay."""
    bounds = {"minMemoryMB": min_memory_mb, "maxMemoryMB": max_memory_mb}
    body: JsonObject = {"enabled": enabled, **{key: each for key, each in bounds.items() if each is not None}}
    return Call("PUT", link.path("autoscale"), repeatable=True, json=body)


def set_lock(link: SandboxLink, locked: bool) -> Call:
    """Locked or not."""
    return Call("PUT", link.path("scaling-lock"), repeatable=True, json={"locked": locked})


class SandboxScaling:
    """What a `Sandbox` can do about its size."""

    _link: SandboxLink

    async def scale(self, memory_mb: int) -> Described:
        """Give it another size while it runs: `{sandboxID, memoryMB, cpuPercent, …}`. Autoscaling ends.

        Sizes are 1024, 4096, 8192 and 16384 MB, with 1, 1, 2 and 4 processors. Its programs go on. Raises
        `ScalingLockedError`, `PlanLimitError`, and `ConflictError` (code "oom_floor") when it uses more.
        """
        return await self._asked(scale(self._link, memory_mb))

    async def set_autoscale(
        self, enabled: bool, *, min_memory_mb: int | None = None, max_memory_mb: int | None = None
    ) -> Described:
        """Let its size follow its use of memory, between two sizes, or stop that.

        Returns `{sandboxID, enabled, minMemoryMB, maxMemoryMB}`, and raises as `scale` does.
        """
        return await self._asked(set_autoscale(self._link, enabled, min_memory_mb, max_memory_mb))

    async def get_autoscale(self) -> Described:
        """Whether its size follows its use of memory: `{sandboxID, enabled, minMemoryMB, maxMemoryMB}`."""
        return await self._asked(get(self._link.path("autoscale")))

    async def set_scaling_lock(self, locked: bool) -> Described:
        """Keep its size as it is, which also switches autoscaling off, or let it be changed again."""
        return await self._asked(set_lock(self._link, locked))

    async def get_scaling_lock(self) -> Described:
        """Whether its size is locked: `{sandboxID, locked}`."""
        return await self._asked(get(self._link.path("scaling-lock")))

    async def _asked(self, call: Call) -> Described:
        return answers.json_object(await self._link.plane.json(call))
