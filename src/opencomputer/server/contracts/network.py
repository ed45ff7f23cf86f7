"""What a driver needs from the network: one private link per machine.

Drivers and the network are plug-ins of their own; this is where they meet.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from opencomputer.server.contracts.driver import MachineId
from opencomputer.server.domain.egress import EgressMode


class AuthorityUnusable(Exception):
    """The file of the certificate authority that machines trust cannot be used."""


@dataclass(frozen=True)
class Link:
    """One machine's /30: `gateway` is the host's end, `guest_address` the machine's."""

    slot: int
    host_interface: str
    guest_address: str
    gateway: str
    prefix_length: int


class MachineNetwork(Protocol):
    """Hands out links. The methods without `async` block for a few milliseconds; call them in a thread."""

    async def open(self) -> None:
        """Set up what the node needs once: firewall, listener address, resolver. Idempotent."""
        ...

    async def close(self) -> None:
        """Stop this process's part. Links and firewall stay: machines outlive the server."""
        ...

    def reserve(self, machine_id: MachineId) -> Link:
        """Take a free subnet for a machine. Raises NoCapacity when none is left."""
        ...

    def enter(self, link: Link, egress: EgressMode) -> None:
        """Move the *calling thread* into a new network namespace that has the machine's end of `link`,
        which lets out what `egress` permits.

        The thread stays there for good, so it must not be one of a pool. The namespace and both ends
        of the link live as long as some process is in it.
        """
        ...

    def set_egress(self, link: Link, egress: EgressMode) -> None:
        """Let out what `egress` permits from now on, whatever becomes of this process. Atomic. Raises OSError
        when the link is gone."""
        ...

    def release(self, machine_id: MachineId) -> None:
        """Remove a machine's link and give its subnet back. Idempotent."""
        ...

    def links(self) -> Sequence[MachineId]:
        """Every machine of this node that holds a link."""
        ...

    def traffic(self, link: Link) -> tuple[int, int]:
        """Bytes into and out of the machine so far; zeros when the link is gone."""
        ...
