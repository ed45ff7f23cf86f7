"""Sizes a sandbox may have: tiers, disks, environments (sandbox-wire.md section 2.2, behaviour 27.1)."""

from __future__ import annotations

import re
from collections.abc import Mapping

from opencomputer.server.domain.errors import Forbidden, InvalidInput
from opencomputer.server.domain.sandbox import SandboxShape

TIERS: Mapping[int, int] = {1024: 1, 4096: 1, 8192: 2, 16384: 4}
"""memoryMB → cpuCount."""

DEFAULT_MEMORY_MB = 4096
MIN_DISK_MB = 20480
MAX_DISK_MB = 262144

MAX_ENVIRONMENT_BYTES = 128 * 1024
MAX_METADATA_BYTES = 64 * 1024
_VARIABLE_NAME = re.compile(r"[^=\0]+")


def resolve_shape(
    memory_mb: int | None, cpu_count: int | None, disk_mb: int | None, *, disk_cap_mb: int
) -> SandboxShape:
    """Turn what a create names into one offered tier.

    Raises InvalidInput for sizes that are not offered and Forbidden for a disk above the cap.
    """
    memory = memory_mb if memory_mb is not None else _memory_for(cpu_count)
    if memory not in TIERS:
        raise InvalidInput(f"memoryMB must be one of {', '.join(map(str, TIERS))}", field="memoryMB")
    if cpu_count is not None and cpu_count != TIERS[memory]:
        raise InvalidInput(
            f"cpuCount must be {TIERS[memory]} with memoryMB {memory}; leave one of them out",
            field="cpuCount",
        )
    disk = MIN_DISK_MB if disk_mb is None else disk_mb
    if not MIN_DISK_MB <= disk <= MAX_DISK_MB:
        raise InvalidInput(f"diskMB must be between {MIN_DISK_MB} and {MAX_DISK_MB}", field="diskMB")
    if disk > disk_cap_mb:
        raise Forbidden(f"diskMB must be at most {disk_cap_mb} on this server", field="diskMB")
    return SandboxShape(memory, TIERS[memory], disk)


def _memory_for(cpu_count: int | None) -> int:
    if cpu_count is None:
        return DEFAULT_MEMORY_MB
    for memory, cpus in TIERS.items():
        if cpus == cpu_count:
            return memory
    offered = sorted(set(TIERS.values()))
    raise InvalidInput(f"cpuCount must be one of {', '.join(map(str, offered))}", field="cpuCount")


def check_environment(variables: Mapping[str, str], field: str = "envs") -> None:
    """Raise InvalidInput for names and values that no process could be given."""
    size = 0
    for name, value in variables.items():
        if not _VARIABLE_NAME.fullmatch(name):
            raise InvalidInput(f"{field} has a name that is empty or contains '=' or NUL", field=field)
        if "\0" in value:
            raise InvalidInput(f"{field}.{name} must not contain NUL", field=field)
        size += len(name.encode()) + len(value.encode()) + 2
    if size > MAX_ENVIRONMENT_BYTES:
        raise InvalidInput(f"{field} must be at most {MAX_ENVIRONMENT_BYTES} bytes in all", field=field)


def check_metadata(metadata: Mapping[str, str]) -> None:
    size = sum(len(key.encode()) + len(value.encode()) for key, value in metadata.items())
    if size > MAX_METADATA_BYTES:
        raise InvalidInput(f"metadata must be at most {MAX_METADATA_BYTES} bytes in all", field="metadata")
