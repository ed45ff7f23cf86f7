"""Names to addresses, asked of the host's own resolvers, and connections to nothing but what was checked."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import dns.asyncresolver
import dns.exception
import dns.name
import dns.nameserver
import dns.rdatatype
import dns.resolver

from opencomputer.server.network.addresses import literal, may_be_reached
from opencomputer.server.network.proxy.streams import PlainStream

_SOMEWHERE_6 = "2000::1"
_CACHED_NAMES = 4096
_NEXT_ADDRESS_SECONDS = 3.0


class DialFailed(Exception):
    """No connection was made. `reason` is the audit's word for it."""

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(text)
        self.reason = reason


class Lookup(Protocol):
    async def addresses(self, name: str) -> Sequence[str]:
        """All addresses of a name, none for a name that does not exist. Raises DialFailed."""
        ...


class DnsLookup:
    """Asks `upstreams`, which may change at any time. Answers are kept for as long as they say."""

    def __init__(self, upstreams: Callable[[], Sequence[tuple[str, int]]], seconds: float = 10.0) -> None:
        self._upstreams = upstreams
        self._seconds = seconds
        self._resolver = dns.asyncresolver.Resolver(configure=False)
        self._resolver.cache = dns.resolver.LRUCache(_CACHED_NAMES)
        self._resolver.timeout = min(3.0, seconds)

    async def addresses(self, name: str) -> Sequence[str]:
        self._resolver.nameservers = [
            dns.nameserver.Do53Nameserver(address, port) for address, port in self._upstreams()
        ]
        kinds = (dns.rdatatype.A, dns.rdatatype.AAAA) if _has_ipv6() else (dns.rdatatype.A,)
        answers = await asyncio.gather(*(self._ask(name, kind) for kind in kinds), return_exceptions=True)
        found = [address for answer in answers if not isinstance(answer, BaseException) for address in answer]
        for answer in answers:
            if isinstance(answer, BaseException) and not found:
                raise answer
        return found

    async def _ask(self, name: str, kind: dns.rdatatype.RdataType) -> Sequence[str]:
        absolute = dns.name.from_text(f"{name}.")
        try:
            answer = await self._resolver.resolve(
                absolute, kind, lifetime=self._seconds, search=False, raise_on_no_answer=False
            )
        except dns.resolver.NXDOMAIN:
            return ()
        except (dns.exception.DNSException, OSError) as error:
            raise DialFailed("unresolved", f"The name {name} cannot be looked up now.") from error
        return [str(record) for record in answer.rrset or ()]  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType] - dnspython's records have no element type


@dataclass(frozen=True)
class Dialled:
    stream: PlainStream
    address: str


class Dialler:
    """Makes connections to names and addresses. What it checks is what it connects to."""

    def __init__(
        self,
        lookup: Lookup,
        seconds: float = 10.0,
        *,
        permits: Callable[[str], bool] = may_be_reached,
    ) -> None:
        self._lookup = lookup
        self._seconds = seconds
        self._permits = permits

    async def dial(self, host: str, port: int) -> Dialled:
        """Connect to a host by its name or address. Raises DialFailed."""
        try:
            async with asyncio.timeout(self._seconds):
                return await self._connect(host, await self._checked(host), port)
        except TimeoutError as error:
            raise DialFailed("timeout", f"No answer from {host}:{port} in time.") from error

    def permits(self, address: str) -> bool:
        return self._permits(address)

    async def _checked(self, host: str) -> Sequence[str]:
        address = literal(host)
        addresses = [address] if address is not None else await self._lookup.addresses(host)
        if not addresses:
            raise DialFailed("unresolved", f"There is no host {host}.")
        permitted = [address for address in addresses if self._permits(address)]
        if not permitted:
            raise DialFailed("blocked_address", f"{host} has an address that must not be reached.")
        return permitted

    async def _connect(self, host: str, addresses: Sequence[str], port: int) -> Dialled:
        """The first that answers. Only the last one may take all the time there is."""
        for address in addresses[:-1]:
            with contextlib.suppress(OSError, TimeoutError):
                async with asyncio.timeout(_NEXT_ADDRESS_SECONDS):
                    return Dialled(await _open(address, port), address)
        try:
            return Dialled(await _open(addresses[-1], port), addresses[-1])
        except TimeoutError:
            raise
        except OSError as error:
            raise DialFailed("unreachable", f"{host}:{port} cannot be connected to.") from error


async def _open(address: str, port: int) -> PlainStream:
    _, stream = await asyncio.get_running_loop().create_connection(PlainStream, address, port)
    return stream


def _has_ipv6() -> bool:
    """Whether the host would know a way. Nothing is sent."""
    try:
        with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as probe:
            probe.connect((_SOMEWHERE_6, 9))
            return True
    except OSError:
        return False
