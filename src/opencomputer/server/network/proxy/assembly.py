"""The egress proxy of a node, put together from what the node has."""

from __future__ import annotations

import resource
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from opencomputer.server.contracts.clock import Clock
from opencomputer.server.contracts.egress import EgressLog, ResolvedNames
from opencomputer.server.network.egress_table import EgressTableInMemory
from opencomputer.server.network.proxy.authority import Authority, Leaves
from opencomputer.server.network.proxy.connection import Parts, ProxyConfig
from opencomputer.server.network.proxy.lookup import Dialler, DnsLookup
from opencomputer.server.network.proxy.proxy import EgressProxy


@dataclass(frozen=True)
class Surroundings:
    """What of the node the proxy needs. `upstreams`: the resolvers that it asks, at any time."""

    table: EgressTableInMemory
    log: EgressLog
    told: ResolvedNames
    clock: Clock
    upstreams: Callable[[], Sequence[tuple[str, int]]]


def egress_proxy(
    surroundings: Surroundings, authority: Authority, trust: ssl.SSLContext | None = None
) -> EgressProxy:
    """A proxy that is not open yet. Hosts are checked against `trust`, or the system's authorities."""
    _allow_many_files()
    config, clock = ProxyConfig(), surroundings.clock
    upstream_tls = trust or ssl.create_default_context()
    # Nothing else is spoken with hosts, whatever they would like better.
    upstream_tls.set_alpn_protocols(["http/1.1"])
    lookup = DnsLookup(surroundings.upstreams, config.handshake_seconds)
    return EgressProxy(
        Parts(
            config=config,
            table=surroundings.table,
            log=surroundings.log,
            names=surroundings.told,
            leaves=Leaves(authority, clock.now),
            dialler=Dialler(lookup, config.handshake_seconds),
            upstream_tls=upstream_tls,
            now=clock.now,
        )
    )


def _allow_many_files() -> None:
    """Each connection is two open files, and what processes are given to begin with is often little."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
