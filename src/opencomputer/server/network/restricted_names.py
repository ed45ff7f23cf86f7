"""Names for machines that may reach permitted hosts only.

Nothing of what such a machine writes is sent on. It may ask for the address of a permitted name; that name,
and no more, goes upstream in a message made here. So neither other names nor types, options or the case of
letters can carry anything out. What comes back is made here too: public addresses of that name.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import dns.exception
import dns.flags
import dns.message
import dns.opcode
import dns.rcode
import dns.rdataclass
import dns.rdatatype
import dns.rrset

from opencomputer.server.contracts.clock import Clock
from opencomputer.server.contracts.egress import EgressEvent, EgressLog, EgressTable
from opencomputer.server.domain.egress import EgressRules, normal_host
from opencomputer.server.network.addresses import may_be_reached
from opencomputer.server.network.told_names import ToldNames

_HOST_NAME = re.compile(r"[a-z0-9_-]{1,63}(\.[a-z0-9_-]{1,63})*")
_DNS_PORT = 53
_PLAIN_BYTES = 512
_MOST_BYTES = 1232
_MOST_ADDRESSES = 32
_LONGEST_SHOWN = 255

Upstream = Callable[[bytes], Awaitable[bytes]]
"""Asks the host's resolvers. The answer "server failure" when none of them has one."""


class RestrictedNames:
    def __init__(self, table: EgressTable, told: ToldNames, log: EgressLog, clock: Clock) -> None:
        self._table = table
        self._told = told
        self._log = log
        self._clock = clock

    async def answer(self, machine: str, wire: bytes, upstream: Upstream, *, stream: bool) -> bytes | None:
        """The answer to a machine's question; None when it cannot be understood at all."""
        try:
            question = dns.message.from_wire(wire, ignore_trailing=True)
        except (dns.exception.DNSException, ValueError):
            return None
        if question.opcode() != dns.opcode.QUERY or len(question.question) != 1:
            return None
        answer = await self._answer(machine, question, upstream)
        return _fitting(answer, question, stream=stream)

    async def _answer(
        self, machine: str, question: dns.message.Message, upstream: Upstream
    ) -> dns.message.Message:
        asked = question.question[0]
        name = normal_host(asked.name.to_text())
        answer = dns.message.make_response(question, recursion_available=True)
        rules = self._table.rules(machine)
        if rules is None:
            answer.set_rcode(dns.rcode.SERVFAIL)
        elif not self._permitted(rules, name) or asked.rdclass != dns.rdataclass.IN:
            # "There is no such name" and not "refused": after the latter, programs ask again and again.
            answer.set_rcode(dns.rcode.NXDOMAIN)
            self._record(rules, name, "allowlist")
        elif asked.rdtype == dns.rdatatype.A:
            await self._resolve(machine, name, answer, upstream)
        return answer

    def _permitted(self, rules: EgressRules, name: str) -> bool:
        return _HOST_NAME.fullmatch(name) is not None and rules.permits(name)

    async def _resolve(
        self, machine: str, name: str, answer: dns.message.Message, upstream: Upstream
    ) -> None:
        """Fill in the public addresses of a permitted name, and note that the machine has been told."""
        query = dns.message.make_query(name, dns.rdatatype.A, use_edns=0, payload=_MOST_BYTES)
        found = _understood(query, await upstream(query.to_wire()))
        rules = self._table.rules(machine)  # they may have changed meanwhile
        if found is None or rules is None or not rules.permits(name):
            answer.set_rcode(dns.rcode.SERVFAIL)
            return
        answer.set_rcode(found.code)
        public = [address for address in found.addresses if may_be_reached(address)]
        blocked = bool(found.addresses) and not public
        self._record(rules, name, "blocked_address" if blocked else None, *public[:1])
        if public:
            owner = answer.question[0].name
            answer.answer.append(dns.rrset.from_text_list(owner, found.seconds, "IN", "A", public))
            for address in public:
                self._told.tell(machine, name, address, found.seconds)

    def _record(self, rules: EgressRules, name: str, reason: str | None, address: str | None = None) -> None:
        event = EgressEvent(
            at=self._clock.now(),
            org_id=rules.org_id,
            sandbox_id=rules.sandbox_id,
            protocol="dns",
            host=name[:_LONGEST_SHOWN],
            port=_DNS_PORT,
            decision="allowed" if reason is None else "denied",
            reason=reason,
            address=address,
        )
        self._log.record(event)


@dataclass(frozen=True)
class _Found:
    code: dns.rcode.Rcode
    addresses: tuple[str, ...]
    seconds: int


def _understood(query: dns.message.Message, wire: bytes) -> _Found | None:
    """What a resolver found, at the end of whatever chain of names. None when it makes no sense."""
    try:
        answer = dns.message.from_wire(wire, ignore_trailing=True)
        if not isinstance(answer, dns.message.QueryMessage) or not query.is_response(answer):
            return None
        chain = answer.resolve_chaining()
    except (dns.exception.DNSException, ValueError):
        return None
    lines = [] if chain.answer is None else chain.answer.to_text().splitlines()
    # The last word of such a line is the address.
    addresses = tuple(line.split()[-1] for line in lines[:_MOST_ADDRESSES])
    return _Found(answer.rcode(), addresses, int(chain.minimum_ttl))


def _fitting(answer: dns.message.Message, question: dns.message.Message, *, stream: bool) -> bytes:
    """The message, or one that says that it is too long for a datagram."""
    most = 65535
    if not stream:
        most = min(max(_PLAIN_BYTES, question.payload if question.edns >= 0 else 0), _MOST_BYTES)
    try:
        return answer.to_wire(max_size=most)
    except dns.exception.TooBig:
        answer.answer.clear()
        answer.flags |= dns.flags.TC
        return answer.to_wire()
