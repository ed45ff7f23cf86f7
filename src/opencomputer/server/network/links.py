"""The network of a node's machines: one link each, one firewall, one listener address."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network
from pathlib import Path

from opencomputer.server.contracts.driver import MachineId
from opencomputer.server.contracts.network import Link
from opencomputer.server.domain.egress import EgressMode
from opencomputer.server.host.kernel import Unshare, unshare
from opencomputer.server.host.netlink import (
    Netlink,
    interface_exists,
    interface_group,
    interface_names,
    interface_traffic,
)
from opencomputer.server.host.nftables import FirewallRefused, apply_ruleset
from opencomputer.server.network.names import Names
from opencomputer.server.network.resolver import (
    QuestionPolicy,
    Resolver,
    ResolverConfig,
    Treatment,
    treatment,
)
from opencomputer.server.network.ruleset import (
    DEVICE_GROUPS,
    RulesetSpec,
    interface_prefix,
    removal,
    replacement,
    ruleset,
)
from opencomputer.server.network.slots import PREFIX_LENGTH, Slots, slot_of, subnet

_NODE = "node"
_INSIDE = "eth0"
_MTU = 1500
_FIRST_LOG_GROUP = 0x4000
"""Above those that people choose by hand; slots are fewer than what is left up to 65535."""
_FORWARDING = Path("/proc/sys/net/ipv4/ip_forward")
_FORWARDING_WAS_OFF = ".forwarding-was-off"
_DEFAULT_NETWORK = IPv4Network("10.231.0.0/16")
_DEFAULT_RESOLVER = ResolverConfig()


@dataclass(frozen=True)
class NetworkConfig:
    """All ports are ports of the node's own address, which nobody else has.

    At `proxy_port` programs that know of the proxy arrive, at `transparent_port` what is led there."""

    node_tag: str
    machine_network: IPv4Network = _DEFAULT_NETWORK
    slots_dir: Path = Path("/run/opencomputer/links")
    metadata_port: int = 9254
    resolver_port: int = 9253
    proxy_port: int = 9252
    transparent_port: int = 9251
    resolver: ResolverConfig = _DEFAULT_RESOLVER
    flows_per_machine: int = 16_384


class MachineLinks:
    """Implements MachineNetwork with veth pairs, unnamed namespaces and nftables.

    Without `names` every question for a name that gets here is passed on.
    """

    def __init__(self, config: NetworkConfig, names: Names | None = None) -> None:
        self._config = config
        self._names = names
        self._slots = Slots(config.slots_dir, config.machine_network)
        self._mtu = _MTU
        self._node_slot: int | None = None
        self._resolver: Resolver | None = None

    @property
    def config(self) -> NetworkConfig:
        return self._config

    @property
    def node_address(self) -> str:
        """Where listeners for machines belong. Valid after `open`."""
        if self._node_slot is None:
            raise RuntimeError("the network is not open")
        return subnet(self._config.machine_network, self._node_slot).gateway

    @property
    def metadata_address(self) -> tuple[str, int]:
        """Where requests of machines to the metadata address arrive. The source address is the machine's."""
        return self.node_address, self._config.metadata_port

    @property
    def log_group(self) -> int:
        """The packet filter's log group that is this node's own on this host. Valid after `open`."""
        if self._node_slot is None:
            raise RuntimeError("the network is not open")
        return _FIRST_LOG_GROUP + self._node_slot

    async def open(self) -> None:
        if self._resolver is not None:
            return
        await asyncio.to_thread(self._open_host)
        names = self._names
        policy = None if names is None else QuestionPolicy(self._treatment, names.restricted)
        resolver = Resolver(self._config.resolver, policy)
        await resolver.open(self.node_address, self._config.resolver_port)
        self._resolver = resolver

    async def close(self) -> None:
        resolver, self._resolver = self._resolver, None
        if resolver is not None:
            await resolver.close()

    async def dismantle(self) -> None:
        """Remove everything of this node from the host. For a node that has no machines left."""
        await self.close()
        await asyncio.to_thread(self._leave_host)

    def reserve(self, machine_id: MachineId) -> Link:
        prefix = interface_prefix(self._config.node_tag)
        slot = self._slots.take(self._config.node_tag, machine_id, lambda number: f"{prefix}{number:04x}")
        addresses = subnet(self._config.machine_network, slot)
        return Link(slot, f"{prefix}{slot:04x}", addresses.guest, addresses.gateway, PREFIX_LENGTH)

    def enter(self, link: Link, egress: EgressMode) -> None:
        host_namespace = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        try:
            with Netlink() as host:
                # A machine that died a moment ago may have left the name behind.
                host.delete(link.host_interface)
                unshare(Unshare.NETWORK)
                with Netlink() as inside:
                    self._plug(link, host, inside, host_namespace)
                # Before anything is let out: a link begins in no group, and that one is closed.
                host.set_group(link.host_interface, DEVICE_GROUPS[egress])
        finally:
            os.close(host_namespace)

    def set_egress(self, link: Link, egress: EgressMode) -> None:
        with Netlink() as netlink:
            netlink.set_group(link.host_interface, DEVICE_GROUPS[egress])

    def egress(self, guest_address: str) -> EgressMode:
        """What is let out of the machine with this address, as the packet filter knows it."""
        try:
            slot = slot_of(self._config.machine_network, guest_address)
        except ValueError:
            return EgressMode.CLOSED
        group = interface_group(f"{interface_prefix(self._config.node_tag)}{slot:04x}")
        return next((mode for mode, number in DEVICE_GROUPS.items() if number == group), EgressMode.CLOSED)

    def _treatment(self, machine: str) -> Treatment:
        if self._names is None:
            return Treatment.PASS_ON
        return treatment(self._names.table, machine, self.egress(machine))

    def release(self, machine_id: MachineId) -> None:
        for slot, owner in self._slots.owned(self._config.node_tag).items():
            if owner.holder == machine_id:
                # The interface first: while it is there, the slot must not be given out again.
                if interface_exists(owner.interface):
                    with Netlink() as netlink:
                        netlink.delete(owner.interface)
                self._slots.give_back(slot)

    def links(self) -> Sequence[MachineId]:
        owners = self._slots.owned(self._config.node_tag).values()
        return [MachineId(owner.holder) for owner in owners if owner.holder != _NODE]

    def traffic(self, link: Link) -> tuple[int, int]:
        received, sent = interface_traffic(link.host_interface)
        return sent, received

    def _plug(self, link: Link, host: Netlink, inside: Netlink, host_namespace: int) -> None:
        # No IPv6 on interfaces made from now on. The loopback keeps ::1, which programs expect.
        Path("/proc/sys/net/ipv6/conf/default/disable_ipv6").write_text("1")
        inside.bring_up("lo")
        inside.add_pair(_INSIDE, link.host_interface, peer_namespace=host_namespace, mtu=self._mtu)
        host.add_address(link.host_interface, link.gateway, link.prefix_length)
        host.bring_up(link.host_interface)
        inside.add_address(_INSIDE, link.guest_address, link.prefix_length)
        inside.bring_up(_INSIDE)
        inside.route_everything_to(link.gateway)

    def _open_host(self) -> None:
        with self._slots.exclusively():
            for tag in self._slots.abandoned_nodes(_NODE) - {self._config.node_tag}:
                self._clear_away(tag)
            self._set_up()

    def _leave_host(self) -> None:
        with self._slots.exclusively():
            self._clear_away(self._config.node_tag)
        self._node_slot = None

    def _set_up(self) -> None:
        only_machines = self._switch_forwarding_on()
        self._node_slot = self._take_node_slot()
        with Netlink() as netlink:
            netlink.bring_up("lo")
            netlink.add_address("lo", self.node_address, 32, label=f"lo:oc{self._config.node_tag}")
            # Larger packets than the way out takes would depend on every router reporting it.
            self._mtu = min(_MTU, netlink.uplink_mtu() or _MTU)
        self._apply_rules(only_machines=only_machines)

    def _apply_rules(self, *, only_machines: bool) -> None:
        config = self._config
        spec = RulesetSpec(
            node_tag=config.node_tag,
            node_address=self.node_address,
            metadata_port=config.metadata_port,
            resolver_port=config.resolver_port,
            proxy_port=config.proxy_port,
            transparent_port=config.transparent_port,
            log_group=self.log_group,
            machine_network=str(config.machine_network),
            flows=config.flows_per_machine,
            only_machines=only_machines,
        )
        try:
            apply_ruleset(ruleset(spec))
        except FirewallRefused:
            # Another version of this server has put up chains or sets of another kind.
            apply_ruleset(replacement(spec))

    def _switch_forwarding_on(self) -> bool:
        """Let the host pass packets on; returns whether it did not before.

        Then it was no router, and must not become one for its neighbours. The note that says so is needed
        by the next node on this host, and vanishes with the setting at the next boot.
        """
        note = self._config.slots_dir / _FORWARDING_WAS_OFF
        if _FORWARDING.read_text().strip() != "1":
            note.touch()
            _FORWARDING.write_text("1")
        return note.exists()

    def _take_node_slot(self) -> int:
        """The slot this node had before, if it is still there, now in this process's name."""
        for slot, owner in self._slots.owned(self._config.node_tag).items():
            if owner.holder == _NODE:
                self._slots.renew(slot)
                return slot
        return self._slots.take(self._config.node_tag, _NODE, lambda _: "lo")

    def _clear_away(self, node_tag: str) -> None:
        """Remove everything of a node without machines: this one at its end, or one that was killed."""
        apply_ruleset(removal(node_tag))
        with Netlink() as netlink:
            for name in interface_names(f"oc{node_tag}"):
                netlink.delete(name)
            for slot, owner in self._slots.owned(node_tag).items():
                if owner.holder == _NODE:
                    netlink.remove_address("lo", subnet(self._config.machine_network, slot).gateway, 32)
                self._slots.give_back(slot)
