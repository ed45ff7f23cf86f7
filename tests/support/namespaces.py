"""Network namespaces that tests build themselves: machines without gVisor, and hosts of a private network."""

from __future__ import annotations

import fcntl
import os
import subprocess
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from opencomputer.server.contracts.network import Link
from opencomputer.server.domain.egress import EgressMode
from opencomputer.server.host.kernel import Unshare, enter_namespace, unshare
from opencomputer.server.host.netlink import Netlink
from opencomputer.server.network.links import MachineLinks

T = TypeVar("T")
_MTU = 1500


class Namespace:
    """A network namespace, kept alive by a process that does nothing."""

    def __init__(self, holder: subprocess.Popen[bytes]) -> None:
        self._holder = holder
        self.descriptor = os.open(f"/proc/{holder.pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)

    def call(self, work: Callable[[], T]) -> T:
        """Run `work` in a thread inside the namespace. Sockets it makes stay inside for their life."""

        def inside() -> T:
            enter_namespace(self.descriptor)
            return work()

        return call_in_thread(inside)

    def run(self, argv: Sequence[str]) -> str:
        """Run a program inside and return what it prints."""
        return self.call(lambda: subprocess.run(argv, capture_output=True, text=True, check=True).stdout)

    def close(self) -> None:
        os.close(self.descriptor)
        self._holder.kill()
        self._holder.wait()


def call_in_thread(work: Callable[[], T]) -> T:
    """Run `work` in a thread of its own, which it may spoil."""
    outcome: list[T] = []
    failure: list[BaseException] = []

    def body() -> None:
        try:
            outcome.append(work())
        except BaseException as error:
            failure.append(error)

    thread = threading.Thread(target=body)
    thread.start()
    thread.join()
    if failure:
        raise failure[0]
    return outcome[0]


@contextmanager
def machine_namespace(
    network: MachineLinks, link: Link, egress: EgressMode = EgressMode.OPEN
) -> Generator[Namespace]:
    """The namespace a machine would get."""

    def enter() -> subprocess.Popen[bytes]:
        network.enter(link, egress)
        return subprocess.Popen(["sleep", "600"])

    namespace = Namespace(call_in_thread(enter))
    try:
        yield namespace
    finally:
        namespace.close()


@contextmanager
def neighbour(interface: str, addresses: Sequence[str]) -> Generator[Namespace]:
    """Another computer on a cable to this host, with these addresses (each with a /32 route to it)."""

    def separate() -> subprocess.Popen[bytes]:
        unshare(Unshare.NETWORK)
        return subprocess.Popen(["sleep", "600"])

    with _only_one_at_a_time():
        yield from _connected(Namespace(call_in_thread(separate)), interface, addresses)


@contextmanager
def _only_one_at_a_time() -> Generator[None]:
    """The addresses are always the same, so tests that run side by side take turns."""
    with open("/run/opencomputer-test-neighbour.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _connected(namespace: Namespace, interface: str, addresses: Sequence[str]) -> Generator[Namespace]:
    try:
        with Netlink() as host:
            host.add_pair(interface, "eth0", peer_namespace=namespace.descriptor, mtu=_MTU)
            host.add_address(interface, "198.51.100.1", 24)
            host.bring_up(interface)
        namespace.run(["ip", "link", "set", "lo", "up"])
        namespace.run(["ip", "address", "add", "198.51.100.2/24", "dev", "eth0"])
        namespace.run(["ip", "link", "set", "eth0", "up"])
        # Answers to whatever address a packet came from find their way back.
        namespace.run(["ip", "route", "add", "default", "via", "198.51.100.1"])
        for address in addresses:
            namespace.run(["ip", "address", "add", f"{address}/32", "dev", "eth0"])
            route = ["ip", "route", "add", f"{address}/32", "via", "198.51.100.2", "dev", interface]
            subprocess.run(route, check=True)
        yield namespace
    finally:
        with Netlink() as host:
            host.delete(interface)
        namespace.close()
