"""What the driver writes down about a running machine, to find it again after a restart. Pure."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, cast

from opencomputer.server.contracts.driver import DriverRecord, MachineId
from opencomputer.server.contracts.network import Link
from opencomputer.server.host.processes import ProcessRef

DRIVER_NAME = "gvisor"


@dataclass(frozen=True)
class MachineState:
    """`boot_id` is the host's: process numbers and start times mean nothing after a reboot."""

    kernel: ProcessRef
    link: Link
    boot_id: str


def to_record(machine_id: MachineId, state: MachineState) -> DriverRecord:
    return DriverRecord(DRIVER_NAME, machine_id, asdict(state))


def from_record(record: DriverRecord) -> MachineState | None:
    """None when the record is not of this driver or has another shape."""
    kernel, link, boot_id = (record.state.get(key) for key in ("kernel", "link", "boot_id"))
    if record.driver != DRIVER_NAME or not isinstance(kernel, dict) or not isinstance(link, dict):
        return None
    try:
        return MachineState(
            ProcessRef(**cast(dict[str, int], kernel)), Link(**cast(dict[str, Any], link)), str(boot_id)
        )
    except TypeError:
        return None
