"""The proxy that programs do not notice: they are led to it, and say by their first words what they want."""

from __future__ import annotations

import asyncio
import ssl

import pytest

from tests.support.egress import MACHINE, TOKEN, VALUE, Internet, Recorder, Wire, rules, secret
from tests.support.waiting import eventually

pytestmark = pytest.mark.anyio

HOST = "api.example.com"
GET = f"GET / HTTP/1.1\nHost: {HOST}\nX-Key: {TOKEN}\n\n"


async def _led(net: Internet, port: int, address: str = "127.0.0.2") -> Wire:
    net.destination = (address, port)
    return await net.led_here()


async def test_a_program_that_ignores_the_proxy_gets_its_secret_put_in(net: Internet) -> None:
    """The host is dialled where its name leads, not where the program went."""
    net.admit(rules(secret(HOST)))
    recorder = Recorder()
    async with net.host(HOST, recorder) as port:
        wire = await _led(net, port, address="127.0.0.77")
        await wire.secure(net.machines_trust, HOST)
        assert (await wire.request(GET)).body == b"ok"
        wire.close()
        await eventually(lambda: net.decisions() == [(HOST, "allowed", None)])
    assert recorder.last.header("x-key") == VALUE
    assert (net.log.events[0].intercepted, net.log.events[0].address) == (True, "127.0.0.2")


async def test_without_a_list_other_hosts_are_reached_where_the_program_went(net: Internet) -> None:
    net.admit(rules(secret("other.example.com")))
    recorder = Recorder()
    async with net.host(HOST, recorder) as port:
        net.names.known.clear()
        wire = await _led(net, port)
        await wire.secure(ssl.create_default_context(cadata=net.public_authority.certificate_pem), HOST)
        assert (await wire.request(GET)).body == b"ok"
        wire.close()
    assert recorder.last.header("x-key") == TOKEN


async def test_under_a_list_names_decide_and_lead(net: Internet) -> None:
    net.admit(rules(allow=[HOST]))
    async with net.host(HOST, Recorder()) as port:
        wire = await _led(net, port, address="127.0.0.77")
        await wire.secure(ssl.create_default_context(cadata=net.public_authority.certificate_pem), HOST)
        assert (await wire.request(GET)).body == b"ok"
        wire.close()


async def test_a_name_that_is_not_on_the_list_is_refused_in_words(net: Internet) -> None:
    net.admit(rules(allow=[HOST]))
    wire = await _led(net, 443)
    await wire.secure(net.machines_trust, "other.example.com")
    answer = await wire.request("GET / HTTP/1.1\nHost: other.example.com\n\n")
    wire.close()
    assert (answer.status, b"other.example.com" in answer.body) == (403, True)
    assert net.decisions() == [("other.example.com", "denied", "allowlist")]


async def test_tls_without_a_name_needs_an_address_the_machine_was_told(net: Internet) -> None:
    nameless = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    nameless.check_hostname = False
    nameless.verify_mode = ssl.CERT_NONE
    net.admit(rules(allow=[HOST]))
    async with net.host(HOST, Recorder()) as port:
        wire = await _led(net, port)
        await wire.writer.start_tls(nameless)
        assert (await wire.request(GET)).status == 403
        net.told.told["127.0.0.2"] = frozenset({HOST, "not.permitted.test"})
        wire = await _led(net, port)
        await wire.writer.start_tls(nameless)
        assert (await wire.request(GET)).status == 200
        wire.close()
        await eventually(lambda: len(net.log.events) == 2)
    assert net.decisions() == [("127.0.0.2", "denied", "unnamed"), (HOST, "allowed", None)]


async def test_plain_http_obeys_the_list_by_its_host_at_every_request(net: Internet) -> None:
    net.admit(rules(secret(HOST), allow=[HOST]))
    recorder = Recorder()
    async with net.host(HOST, recorder, tls=False) as port:
        wire = await _led(net, port)
        assert (await wire.request(GET)).body == b"ok"
        answer = await wire.request("GET / HTTP/1.1\nHost: hidden.example.com\n\n")
        assert answer.status == 421
        wire = await _led(net, port)
        assert (await wire.request("GET / HTTP/1.1\nHost: hidden.example.com\n\n")).status == 403
        wire.close()
    assert [request.header("x-key") for request in recorder.requests] == [TOKEN]


async def test_a_silent_program_reaches_a_host_that_speaks_first(net: Internet) -> None:
    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"SSH-2.0-test\r\n")
        writer.write(await reader.readline())

    net.admit(rules(allow=["git.example.com"]))
    async with net.host("git.example.com", greet, tls=False) as port:
        refused = await _led(net, port)
        assert await refused.rest() == b""
        net.told.told["127.0.0.2"] = frozenset({"git.example.com"})
        wire = await _led(net, port)
        assert await wire.reader.readline() == b"SSH-2.0-test\r\n"
        wire.writer.write(b"mine\n")
        assert await wire.rest() == b"mine\n"
        wire.close()
        await eventually(lambda: len(net.log.events) == 2)
    assert net.decisions() == [("127.0.0.2", "denied", "unnamed"), ("git.example.com", "allowed", None)]


async def test_a_program_that_begins_late_is_still_understood(net: Internet) -> None:
    """It has been connected without a name by then; what it says makes it another connection."""
    greeted = asyncio.Event()

    async def other(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        greeted.set()
        await reader.read()

    net.admit(rules(secret(HOST)))
    recorder = Recorder()
    async with net.host(HOST, recorder) as port:
        decoy = await asyncio.start_server(other, "127.0.0.3", port)
        try:
            wire = await _led(net, port, address="127.0.0.3")
            await asyncio.wait_for(greeted.wait(), 60)
            await wire.secure(net.machines_trust, HOST)
            assert (await wire.request(GET)).body == b"ok"
            wire.close()
        finally:
            decoy.close()
    assert recorder.last.header("x-key") == VALUE


async def test_blocked_addresses_are_blocked_here_too(net: Internet) -> None:
    net.admit(rules(secret()))
    net.names.known["sneaky.example.com"] = ["10.0.0.1"]
    wire = await _led(net, 443, address="10.0.0.1")
    assert await wire.rest() == b""
    wire = await _led(net, 443)
    await wire.secure(net.machines_trust, "sneaky.example.com")
    assert (await wire.request(GET.replace(HOST, "sneaky.example.com"))).status == 403
    wire.close()
    assert {event.reason for event in net.log.events} == {"blocked_address"}


async def test_nobodys_machine_is_cut(net: Internet) -> None:
    wire = await _led(net, 443)
    assert await wire.rest() == b""
    net.admit(rules(network=False))
    assert await (await _led(net, 443)).rest() == b""
    assert [event.reason for event in net.log.events] == ["network_off"]


@pytest.mark.parametrize(
    "words", [b"\r\nGET / HTTP/1.1\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"x\n"]
)
async def test_under_a_list_web_ports_are_for_what_names_its_host(net: Internet, words: bytes) -> None:
    """Else whoever shares an address with a permitted host could be reached."""
    net.admit(rules(allow=[HOST]))
    net.told.told["127.0.0.2"] = frozenset({HOST})
    wire = await _led(net, 80)
    wire.writer.write(words)
    assert await wire.rest() == b""
    assert net.decisions() == [(HOST, "denied", "unnamed")]


async def test_rules_that_come_while_a_program_hesitates_count(net: Internet) -> None:
    net.admit(rules(secret()))
    wire = await _led(net, 443)
    await eventually(lambda: net.proxy.connections == 1)
    net.table.dismiss(MACHINE)
    assert await wire.rest() == b""
    assert net.log.events == []
