"""Telling the service manager how a node is, by systemd's protocol: one datagram for each change."""

from __future__ import annotations

import socket

READY = "READY=1"
STOPPING = "STOPPING=1"


def notify(address: str | None, state: str) -> bool:
    """Tell it, where there is one. Whether it was told: a node works just as well without.

    `address` is a path, or a name in the abstract namespace behind an `@`.
    """
    if not address:
        return False
    target = f"\0{address[1:]}" if address.startswith("@") else address
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
            sender.settimeout(1)
            sender.sendto(state.encode(), target)
    except OSError:
        return False
    return True
