"""Interfaces, addresses and routes of the network namespace a thread is in."""

# pyright: reportMissingTypeStubs=false
# (pyroute2 has no types; this module is where its values become ours.)

from __future__ import annotations

import errno
from pathlib import Path
from types import TracebackType
from typing import Any

from pyroute2 import IPRoute, NetlinkError

_INTERFACES = Path("/sys/class/net")


class Netlink:
    """A conversation with the kernel about the namespace in which it was begun.

    Methods block well under a millisecond each, except `delete`, which waits for the kernel to let go (some
    10 ms). They raise OSError when the kernel refuses.
    """

    def __init__(self) -> None:
        self._socket: Any = IPRoute()

    def __enter__(self) -> Netlink:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()

    def add_pair(self, name: str, peer: str, *, peer_namespace: int, mtu: int) -> None:
        """Create a veth pair: `name` here, `peer` in the namespace behind an open descriptor."""
        other = {"ifname": peer, "net_ns_fd": peer_namespace, "mtu": mtu}
        self._socket.link("add", ifname=name, kind="veth", mtu=mtu, peer=other)

    def add_address(self, name: str, address: str, prefix_length: int, *, label: str | None = None) -> None:
        """Give an interface an address. Having it already is fine."""
        extra = {"label": label} if label else {}
        try:
            self._socket.addr(
                "add", index=self._index(name), address=address, prefixlen=prefix_length, **extra
            )
        except NetlinkError as error:
            if error.code != errno.EEXIST:
                raise

    def remove_address(self, name: str, address: str, prefix_length: int) -> None:
        """Take an address away. Its absence is fine."""
        try:
            self._socket.addr("del", index=self._index(name), address=address, prefixlen=prefix_length)
        except NetlinkError as error:
            if error.code != errno.EADDRNOTAVAIL:
                raise

    def bring_up(self, name: str) -> None:
        self._socket.link("set", index=self._index(name), state="up")

    def set_group(self, name: str, group: int) -> None:
        """Put an interface into a device group, which rules of the packet filter can ask for. Atomic."""
        self._socket.link("set", index=self._index(name), group=group)

    def route_everything_to(self, gateway: str) -> None:
        self._socket.route("add", dst="default", gateway=gateway)

    def delete(self, name: str) -> None:
        """Remove an interface (and its peer). Its absence is fine."""
        found = self._socket.link_lookup(ifname=name)
        if not found:
            return
        try:
            self._socket.link("del", index=found[0])
        except NetlinkError as error:
            if error.code != errno.ENODEV:
                raise

    def uplink_mtu(self) -> int | None:
        """The largest packet of the interface that the default route uses; None without such a route."""
        for route in self._socket.get_default_routes(family=2):
            index = route.get("RTA_OIF")
            if index is not None:
                return int(self._socket.get_links(int(index))[0].get("IFLA_MTU"))
        return None

    def _index(self, name: str) -> int:
        found = self._socket.link_lookup(ifname=name)
        if not found:
            raise OSError(errno.ENODEV, f"there is no interface {name}")
        return int(found[0])


def interface_exists(name: str) -> bool:
    """Whether the host's namespace has an interface of this name."""
    return (_INTERFACES / name).exists()


def interface_group(name: str) -> int | None:
    """The device group of an interface of the host; None when it is gone. Takes microseconds."""
    try:
        return int((_INTERFACES / name / "netdev_group").read_text(), 0)
    except OSError:
        return None


def interface_names(prefix: str) -> list[str]:
    return sorted(entry.name for entry in _INTERFACES.glob(f"{prefix}*"))


def interface_traffic(name: str) -> tuple[int, int]:
    """Bytes received and sent by an interface of the host; zeros when it is gone."""
    statistics = _INTERFACES / name / "statistics"
    try:
        return int((statistics / "rx_bytes").read_text()), int((statistics / "tx_bytes").read_text())
    except OSError:
        return 0, 0
