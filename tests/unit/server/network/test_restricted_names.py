"""What a restricted machine can ask, what of it goes upstream, and what it is told."""

from __future__ import annotations

import random

import dns.flags
import dns.message
import dns.rcode
import pytest

from opencomputer.server.contracts.egress import EgressEvent
from opencomputer.server.domain.egress import EgressMode, EgressRules
from opencomputer.server.network.egress_table import EgressTableInMemory
from opencomputer.server.network.resolver import Treatment, treatment
from opencomputer.server.network.restricted_names import RestrictedNames
from opencomputer.server.network.told_names import ToldNames
from opencomputer.wire.ids import OrgId, SandboxId
from tests.support.hand_clock import HandClock

pytestmark = pytest.mark.anyio
MACHINE = "10.231.0.6"
PUBLIC = "203.0.113.77"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def rules(*allowlist: str, network: bool = True) -> EgressRules:
    return EgressRules(OrgId("org-1"), SandboxId("sb-00000001"), network, allowlist)


class Setting:
    """Restricted names with an upstream that answers what the test says."""

    def __init__(self) -> None:
        self.table = EgressTableInMemory()
        self.clock = HandClock()
        self.told = ToldNames(self.table, self.clock)
        self.table.subscribe(self.told.rules_changed)
        self.events: list[EgressEvent] = []
        self.names = RestrictedNames(self.table, self.told, self, self.clock)
        self.upstream_saw: list[dns.message.Message] = []
        self.zone: dict[str, str] = {"api.example.com.": f"api.example.com. 60 IN A {PUBLIC}"}
        self.table.admit(MACHINE, rules("api.example.com", "*.packages.example"))

    def record(self, event: EgressEvent) -> None:
        self.events.append(event)

    async def upstream(self, wire: bytes) -> bytes:
        question = dns.message.from_wire(wire)
        self.upstream_saw.append(question)
        answer = dns.message.make_response(question)
        name = question.question[0].name.to_text()
        if name not in self.zone:
            answer.set_rcode(dns.rcode.NXDOMAIN)
        header = f"id {answer.id}\nopcode QUERY\nrcode {dns.rcode.to_text(answer.rcode())}\nflags QR RD\n"
        text = f"{header};QUESTION\n{name} IN A\n;ANSWER\n{self.zone.get(name, '')}\n"
        return dns.message.from_text(text).to_wire(max_size=65535)

    async def ask(
        self, name: str, kind: str = "A", *, stream: bool = False, **options: int
    ) -> dns.message.Message:
        question = dns.message.make_query(name, kind, **options)  # pyright: ignore[reportArgumentType]
        wire = await self.names.answer(MACHINE, question.to_wire(), self.upstream, stream=stream)
        assert wire is not None
        return dns.message.from_wire(wire)


@pytest.fixture
def setting() -> Setting:
    return Setting()


def addresses(answer: dns.message.Message) -> list[str]:
    return [line.split()[-1] for rrset in answer.answer for line in rrset.to_text().splitlines()]


async def test_a_permitted_name_is_resolved_and_remembered(setting: Setting) -> None:
    answer = await setting.ask("API.example.com")
    assert addresses(answer) == [PUBLIC]
    assert answer.question[0].name.to_text() == "API.example.com."
    assert setting.told.names(MACHINE, PUBLIC) == {"api.example.com"}
    assert [(each.host, each.decision, each.address) for each in setting.events] == [
        ("api.example.com", "allowed", PUBLIC)
    ]


@pytest.mark.parametrize(
    "name",
    ["secret.evil.example", "example.com", "x.api.example.com", "packages.example", ".",
     "api.example.com.evil", r"a\.packages\.example", r"sec\000ret.packages.example",
     r"a\032b.packages.example", "4.3.2.1.in-addr.arpa"],
)  # fmt: skip
@pytest.mark.parametrize("kind", ["A", "TXT", "ANY"])
async def test_a_name_outside_the_list_does_not_exist_and_is_never_sent_on(
    setting: Setting, name: str, kind: str
) -> None:
    answer = await setting.ask(name, kind)
    assert answer.rcode() == dns.rcode.NXDOMAIN
    assert setting.upstream_saw == []
    assert [(each.decision, each.reason) for each in setting.events] == [("denied", "allowlist")]


@pytest.mark.parametrize("kind", ["AAAA", "TXT", "HTTPS", "MX", "SRV", "NULL", "ANY", "TYPE4711"])
async def test_other_types_of_a_permitted_name_are_empty_and_never_sent_on(
    setting: Setting, kind: str
) -> None:
    """The choice of a type would be a message."""
    answer = await setting.ask("api.example.com", kind)
    assert (answer.rcode(), answer.answer) == (dns.rcode.NOERROR, [])
    assert setting.upstream_saw == []


async def test_nothing_but_the_name_goes_upstream(setting: Setting) -> None:
    """No option, case, class, number or further section that the machine has chosen."""
    question = dns.message.make_query("aPi.eXample.cOm", "A", use_edns=0, payload=4000)
    question.id = 4711
    question.use_edns(0, payload=4000, options=[dns.edns.GenericOption(65001, b"secret")])  # pyright: ignore
    question.flags |= dns.flags.CD | dns.flags.AD
    wire = question.to_wire() + b"secret"
    await setting.names.answer(MACHINE, wire, setting.upstream, stream=False)
    (sent,) = setting.upstream_saw
    assert sent.to_wire().count(b"secret") == 0
    assert sent.question[0].name.to_text() == "api.example.com."
    assert sent.payload == 1232
    assert not sent.flags & (dns.flags.CD | dns.flags.AD)


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1", "10.0.0.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "224.0.0.1", "192.168.1.1"],
)  # fmt: skip
async def test_addresses_that_must_not_be_reached_are_left_out(setting: Setting, address: str) -> None:
    """A permitted name may be its owner's way to a neighbour."""
    setting.zone["api.example.com."] = (
        f"api.example.com. 60 IN A {address}\napi.example.com. 60 IN A {PUBLIC}"
    )
    assert addresses(await setting.ask("api.example.com")) == [PUBLIC]
    setting.zone["api.example.com."] = f"api.example.com. 60 IN A {address}"
    assert addresses(await setting.ask("api.example.com")) == []
    assert setting.events[-1].reason == "blocked_address"
    assert setting.told.names(MACHINE, address) == frozenset()


async def test_a_chain_of_names_ends_in_addresses_of_the_name_that_was_asked_for(setting: Setting) -> None:
    setting.zone["api.example.com."] = (
        "api.example.com. 60 IN CNAME edge.cdn.example.\n"
        f"edge.cdn.example. 20 IN A {PUBLIC}\nevil.example. 60 IN A 203.0.113.66"
    )
    answer = await setting.ask("api.example.com")
    assert addresses(answer) == [PUBLIC]
    assert answer.answer[0].name.to_text() == "api.example.com."
    assert answer.answer[0].ttl == 20
    assert setting.told.names(MACHINE, "203.0.113.66") == frozenset()


async def test_a_permitted_name_that_does_not_exist_is_said_not_to(setting: Setting) -> None:
    assert (await setting.ask("gone.packages.example")).rcode() == dns.rcode.NXDOMAIN


async def test_an_answer_that_makes_no_sense_is_a_failure(setting: Setting) -> None:
    setting.zone["api.example.com."] = (
        "api.example.com. 60 IN CNAME b.example.\nb.example. 60 IN CNAME api.example.com."
    )
    assert (await setting.ask("api.example.com")).rcode() == dns.rcode.SERVFAIL


async def test_rules_that_change_while_a_question_is_under_way_count(setting: Setting) -> None:
    ask = setting.upstream

    async def slow(wire: bytes) -> bytes:
        setting.table.admit(MACHINE, rules("other.example"))
        return await ask(wire)

    question = dns.message.make_query("api.example.com", "A").to_wire()
    wire = await setting.names.answer(MACHINE, question, slow, stream=False)
    assert wire is not None
    assert addresses(dns.message.from_wire(wire)) == []
    assert setting.told.names(MACHINE, PUBLIC) == frozenset()


async def test_a_long_answer_is_cut_for_datagrams_and_whole_on_a_stream(setting: Setting) -> None:
    setting.zone["api.example.com."] = "\n".join(
        f"api.example.com. 60 IN A 203.0.113.{number}" for number in range(1, 60)
    )
    short = await setting.ask("api.example.com")
    assert short.flags & dns.flags.TC
    assert len(addresses(await setting.ask("api.example.com", stream=True))) == 32
    assert len(addresses(await setting.ask("api.example.com", use_edns=0, payload=4096))) == 32


async def test_what_a_machine_was_told_is_believed_for_a_while(setting: Setting) -> None:
    await setting.ask("api.example.com")
    setting.clock.advance(299)
    assert setting.told.names(MACHINE, PUBLIC) == {"api.example.com"}
    assert setting.told.names("10.231.0.10", PUBLIC) == frozenset()
    setting.clock.advance(2)
    assert setting.told.names(MACHINE, PUBLIC) == frozenset()


async def test_a_name_that_is_no_longer_permitted_opens_no_address(setting: Setting) -> None:
    await setting.ask("api.example.com")
    setting.table.admit(MACHINE, rules("other.example"))
    assert setting.told.names(MACHINE, PUBLIC) == frozenset()
    setting.table.admit(MACHINE, rules("api.example.com"))
    assert setting.told.names(MACHINE, PUBLIC) == {"api.example.com"}
    setting.table.dismiss(MACHINE)
    setting.table.admit(MACHINE, rules("api.example.com"))
    assert setting.told.names(MACHINE, PUBLIC) == frozenset()


def test_what_is_remembered_is_bounded(setting: Setting) -> None:
    for number in range(3000):
        setting.told.tell(MACHINE, f"n{number}.packages.example", PUBLIC, 60)
    assert len(setting.told.names(MACHINE, PUBLIC)) == 1024


async def test_no_message_of_a_machine_does_harm(setting: Setting) -> None:
    chance = random.Random(7)
    whole = dns.message.make_query("api.example.com", "A", use_edns=0).to_wire()
    for _ in range(2000):
        broken = bytearray(whole[: chance.randrange(12, len(whole) + 1)])
        for _ in range(chance.randrange(4)):
            broken[chance.randrange(len(broken))] = chance.randrange(256)
        await setting.names.answer(MACHINE, bytes(broken), setting.upstream, stream=False)
    assert {sent.question[0].name.to_text() for sent in setting.upstream_saw} == {"api.example.com."}


OPEN, WATCHED, RESTRICTED, CLOSED = (
    EgressMode.OPEN, EgressMode.WATCHED, EgressMode.RESTRICTED, EgressMode.CLOSED
)  # fmt: skip


@pytest.mark.parametrize(
    ("known", "mode", "expected"),
    [
        (None, OPEN, Treatment.PASS_ON),
        (None, WATCHED, Treatment.FAIL),
        (None, RESTRICTED, Treatment.FAIL),
        (None, CLOSED, Treatment.FAIL),
        (rules(), OPEN, Treatment.PASS_ON),
        (rules(), WATCHED, Treatment.PASS_ON),
        (rules(), RESTRICTED, Treatment.RESTRICT),
        (rules("a.example"), OPEN, Treatment.RESTRICT),
        (rules("a.example"), RESTRICTED, Treatment.RESTRICT),
        (rules("a.example"), CLOSED, Treatment.FAIL),
        (rules(network=False), OPEN, Treatment.FAIL),
    ],
)
def test_of_the_filter_and_the_table_the_stricter_counts(
    known: EgressRules | None, mode: EgressMode, expected: Treatment
) -> None:
    table = EgressTableInMemory()
    if known is not None:
        table.admit(MACHINE, known)
    assert treatment(table, MACHINE, mode) is expected
