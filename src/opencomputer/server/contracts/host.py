"""What services may know of the host they run on."""

from __future__ import annotations

from typing import Protocol

from opencomputer.server.domain.capacity import HostLoad


class HostGauge(Protocol):
    def load(self, machines: int) -> HostLoad: ...
