"""Which machine has which subnet. Shared by all nodes of a host, because addresses are.

A slot is a file: its name is the number, its content says whose it is. Files are made by `link`, which is
atomic and exclusive and never shows half a content. A slot is stale when neither its interface nor the
process that took it exists any more; stale slots are given out again when nothing else is free.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import random
import threading
from collections.abc import Callable, Generator, Iterator
from dataclasses import asdict, dataclass, replace
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

from opencomputer.server.domain.errors import NoCapacity
from opencomputer.server.host.netlink import interface_exists
from opencomputer.server.host.processes import ProcessRef, is_alive, reference

PREFIX_LENGTH = 30


@dataclass(frozen=True)
class SlotOwner:
    """Content of a slot file. `holder` is a machine id, or a word for what the node itself needs."""

    node_tag: str
    holder: str
    interface: str
    pid: int
    start_ticks: int


@dataclass(frozen=True)
class Subnet:
    """The addresses of one slot."""

    gateway: str
    guest: str


def subnet(network: IPv4Network, slot: int) -> Subnet:
    base = int(network.network_address) + (slot << (32 - PREFIX_LENGTH))
    return Subnet(str(IPv4Address(base + 1)), str(IPv4Address(base + 2)))


def slot_of(network: IPv4Network, guest_address: str) -> int:
    """The slot whose machine has this address. Raises ValueError when none can have it."""
    slot = (int(IPv4Address(guest_address)) - int(network.network_address)) >> (32 - PREFIX_LENGTH)
    if subnet(network, slot).guest != guest_address or IPv4Address(guest_address) not in network:
        raise ValueError(f"{guest_address} is no machine's address")
    return slot


class Slots:
    """The slots of one network on this host."""

    def __init__(
        self,
        folder: Path,
        network: IPv4Network,
        *,
        in_use: Callable[[str], bool] = interface_exists,
        first_try: Callable[[int], int] = random.randrange,
    ) -> None:
        self._folder = folder / str(network).replace("/", "_")
        self._count = 1 << (PREFIX_LENGTH - network.prefixlen)
        self._in_use = in_use
        self._first_try = first_try

    def take(self, node_tag: str, holder: str, name_interface: Callable[[int], str]) -> int:
        """Take a free slot. Raises NoCapacity when all are in use.

        The search begins at a random place, so that the address of a machine that just ended, which
        peers may still be talking to, is not the next one's.
        """
        me = reference(os.getpid()) or ProcessRef(os.getpid(), 0)
        start = self._first_try(self._count)
        candidates = [(start + step) % self._count for step in range(self._count)]
        for reclaim in (False, True):
            for slot in candidates:
                owner = SlotOwner(node_tag, holder, name_interface(slot), me.pid, me.start_ticks)
                if self._claim(slot, owner, reclaim=reclaim):
                    return slot
        raise NoCapacity("All machine networks of this host are in use.")

    def owned(self, node_tag: str) -> dict[int, SlotOwner]:
        """The slots of one node."""
        return {slot: owner for slot, owner in self._all() if owner.node_tag == node_tag}

    def renew(self, slot: int) -> None:
        """Put this process's name on a slot that an earlier process of the same node took."""
        owner = _read(self._file(slot))
        me = reference(os.getpid())
        if owner is not None and me is not None:
            draft = self._folder / f".renewed-{owner.node_tag}-{slot}"
            draft.write_text(json.dumps(asdict(replace(owner, pid=me.pid, start_ticks=me.start_ticks))))
            draft.replace(self._file(slot))

    def abandoned_nodes(self, node_holder: str) -> set[str]:
        """Nodes whose server is dead and none of whose machines has a link any more.

        `node_holder` is under what holder a node keeps a slot for itself.
        """
        dead: set[str] = set()
        linked: set[str] = set()
        for _, owner in self._all():
            alive = is_alive(ProcessRef(owner.pid, owner.start_ticks))
            if owner.holder == node_holder and not alive:
                dead.add(owner.node_tag)
            elif alive or self._in_use(owner.interface):
                linked.add(owner.node_tag)
        return dead - linked

    @contextlib.contextmanager
    def exclusively(self) -> Generator[None]:
        """Keep other nodes of the host from setting up or clearing away meanwhile. Blocks."""
        with self._locked(".lock"):
            yield

    @contextlib.contextmanager
    def _locked(self, name: str) -> Generator[None]:
        self._folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self._folder / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def give_back(self, slot: int) -> None:
        self._file(slot).unlink(missing_ok=True)

    def _claim(self, slot: int, owner: SlotOwner, *, reclaim: bool) -> bool:
        file = self._file(slot)
        if file.exists() and not (reclaim and self._remove_if_stale(file)):
            return False
        draft = self._folder / f".draft-{os.getpid()}-{threading.get_ident()}"
        self._folder.mkdir(parents=True, exist_ok=True)
        draft.write_text(json.dumps(asdict(owner)))
        try:
            os.link(draft, file)
        except FileExistsError:
            return False
        finally:
            draft.unlink()
        return True

    def _remove_if_stale(self, file: Path) -> bool:
        """One process at a time: another must not remove what the first has just put in its place."""
        with self._locked(".reclaim"):
            stale = self._is_stale(file)
            if stale:
                file.unlink(missing_ok=True)
            return stale

    def _is_stale(self, file: Path) -> bool:
        owner = _read(file)
        if owner is None:
            return True
        return not self._in_use(owner.interface) and not is_alive(ProcessRef(owner.pid, owner.start_ticks))

    def _all(self) -> Iterator[tuple[int, SlotOwner]]:
        with contextlib.suppress(FileNotFoundError):
            for file in self._folder.iterdir():
                owner = _read(file) if file.name.isdigit() else None
                if owner is not None:
                    yield int(file.name), owner

    def _file(self, slot: int) -> Path:
        return self._folder / f"{slot:05d}"


def _read(file: Path) -> SlotOwner | None:
    try:
        return SlotOwner(**json.loads(file.read_text()))
    except (OSError, ValueError, TypeError):
        return None
