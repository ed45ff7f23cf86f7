"""The proxy that programs know of: who may connect where, and what is said when they may not."""

from __future__ import annotations

import asyncio
import ssl

import pytest

from opencomputer.server.network.proxy.connection import ProxyConfig
from tests.support.egress import Internet, Recorder, internet, rules, secret
from tests.support.waiting import eventually

pytestmark = pytest.mark.anyio

HOST = "api.example.com"


async def _status(net: Internet, request: str, **more: str) -> tuple[int, str]:
    wire = await net.ask_proxy(request.replace("\n", "\r\n").encode(), **more)
    answer = await wire.answer()
    wire.close()
    return answer.status, answer.body.decode()


async def test_a_machine_that_nobody_named_gets_407(net: Internet) -> None:
    status, _ = await _status(net, f"CONNECT {HOST}:443 HTTP/1.1\n\n", source="127.0.0.9")
    assert status == 407
    status, _ = await _status(net, f"GET http://{HOST}/ HTTP/1.1\nHost: {HOST}\n\n", source="127.0.0.9")
    assert status == 407
    assert net.names.asked == []


async def test_without_secrets_for_the_host_nothing_is_decrypted(net: Internet) -> None:
    """The program sees the host's own certificate."""
    net.admit(rules(secret("elsewhere.example.com")))
    recorder = Recorder()
    async with net.host(HOST, recorder) as port:
        wire = await net.tunnel(HOST, port)
        only_public = ssl.create_default_context(cadata=net.public_authority.certificate_pem)
        await wire.secure(only_public, HOST)
        answer = await wire.request(f"GET / HTTP/1.1\nHost: {HOST}\n\n")
        wire.close()
        assert answer.body == b"ok"
        await eventually(lambda: net.decisions() == [(HOST, "allowed", None)])
    event = net.log.events[0]
    assert (event.intercepted, event.protocol, event.port, event.address) == (False, "tls", port, "127.0.0.2")
    assert event.bytes_out > 0
    assert event.bytes_in > 0


async def test_a_host_that_is_not_on_the_list_gets_403_and_is_not_even_looked_up(net: Internet) -> None:
    net.admit(rules(allow=[HOST]))
    status, text = await _status(net, "CONNECT other.example.com:443 HTTP/1.1\n\n")
    assert status == 403
    assert "other.example.com" in text
    assert net.names.asked == []
    assert net.decisions() == [("other.example.com", "denied", "allowlist")]


@pytest.mark.parametrize(
    ("pattern", "host", "permitted"),
    [
        ("api.example.com", "API.example.com.", True),
        ("api.example.com", "v1.api.example.com", False),
        ("*.example.com", "a.b.example.com", True),
        ("*.example.com", "example.com", False),
        ("*.example.com", "badexample.com", False),
        ("*", "anything.test", True),
    ],
)
async def test_patterns(net: Internet, pattern: str, host: str, permitted: bool) -> None:
    """A permitted name is looked up, and does not exist."""
    net.admit(rules(allow=[pattern]))
    status, _ = await _status(net, f"CONNECT {host}:443 HTTP/1.1\n\n")
    assert status == (502 if permitted else 403)


async def test_without_network_nothing_is_permitted(net: Internet) -> None:
    net.admit(rules(network=False))
    assert (await _status(net, f"CONNECT {HOST}:443 HTTP/1.1\n\n"))[0] == 403
    assert net.decisions() == [(HOST, "denied", "network_off")]


@pytest.mark.parametrize(
    "address",
    [
        "10.0.0.1",
        "169.254.169.254",
        "192.168.1.1",
        "[::1]",
        "[::ffff:10.0.0.1]",
        "[fd00:ec2::254]",
        "100.64.1.1",
    ],
)
async def test_private_addresses_are_refused_however_they_are_named(net: Internet, address: str) -> None:
    net.admit(rules(secret()))
    assert (await _status(net, f"CONNECT {address}:80 HTTP/1.1\n\n"))[0] == 403
    net.names.known["sneaky.example.com"] = [address.strip("[]")]
    assert (await _status(net, "CONNECT sneaky.example.com:443 HTTP/1.1\n\n"))[0] == 403
    status, _ = await _status(net, f"GET http://{address}/ HTTP/1.1\nHost: {address}\n\n")
    assert status == 403
    assert {event.reason for event in net.log.events} == {"blocked_address"}


async def test_a_name_is_resolved_once_and_what_was_checked_is_dialled(net: Internet) -> None:
    """A name that changes its address between check and connection does not get anywhere else."""
    net.admit(rules())
    async with net.host(HOST, Recorder(), tls=False) as port:
        net.names.known[HOST] = ["10.0.0.1", "127.0.0.2"]
        (await net.tunnel(HOST, port)).close()
    assert net.names.asked == [HOST]


async def test_an_address_is_denied_under_a_list_unless_the_machine_was_told_it(net: Internet) -> None:
    net.admit(rules(allow=[HOST]))
    assert (await _status(net, "CONNECT 127.0.0.2:443 HTTP/1.1\n\n"))[0] == 403
    assert net.decisions() == [("127.0.0.2", "denied", "unnamed")]
    net.told.told["127.0.0.2"] = frozenset({"other.example.com"})
    assert (await _status(net, "CONNECT 127.0.0.2:443 HTTP/1.1\n\n"))[0] == 403
    net.told.told["127.0.0.2"] = frozenset({HOST})
    async with net.host(HOST, Recorder(), tls=False) as port:
        (await net.tunnel("127.0.0.2", port)).close()


@pytest.mark.parametrize(
    "target",
    ["api.example.com", ":443", "api.example.com:0", "api.example.com:99999", "a b:443", "user@host:443",
     "http://api.example.com:443", "api_%41.example.com:443", f"{'a' * 300}:443", "[::1:443"],
)  # fmt: skip
async def test_connect_needs_a_host_and_a_port(net: Internet, target: str) -> None:
    net.admit(rules())
    assert (await _status(net, f"CONNECT {target} HTTP/1.1\n\n"))[0] == 400


async def test_other_methods_get_405(net: Internet) -> None:
    net.admit(rules())
    assert (await _status(net, "GET / HTTP/1.1\nHost: x.example.com\n\n"))[0] == 405
    assert (await _status(net, f"GET https://{HOST}/ HTTP/1.1\nHost: {HOST}\n\n"))[0] == 405


async def test_plain_http_is_passed_on_without_substitution(net: Internet) -> None:
    """Several hosts on one connection are several lines in the log."""
    key = secret()
    net.admit(rules(key))
    first, second = Recorder(), Recorder()
    async with net.host(HOST, first, tls=False) as port, net.host("b.test", second, tls=False) as other:
        wire = await net.ask_proxy(b"")
        request = (
            f"GET http://{HOST}:{port}/a?k={key.token} HTTP/1.1\nHost: {HOST}:{port}\n"
            f"X-Key: {key.token}\nProxy-Connection: keep-alive\nProxy-Authorization: Basic eDp5\n\n"
        )
        await wire.request(request)
        answer = await wire.request(request)
        await wire.request(f"GET http://b.test:{other} HTTP/1.1\nHost: b.test:{other}\n\n")
        wire.close()
        assert answer.body == b"ok"
        await eventually(lambda: len(net.log.events) == 2)
    assert first.connections == 1
    assert first.last.head.startswith(f"GET /a?k={key.token} HTTP/1.1\r\n")
    assert first.last.header("x-key") == key.token
    assert "proxy" not in first.last.head.lower()
    assert second.last.head.startswith("GET / HTTP/1.1\r\n")
    assert [event.withheld for event in net.log.events] == [("API_KEY",), ()]
    assert [event.secrets for event in net.log.events] == [(), ()]


async def test_plain_http_obeys_the_list_at_every_request(net: Internet) -> None:
    net.admit(rules(allow=[HOST]))
    async with net.host(HOST, Recorder(), tls=False) as port:
        wire = await net.ask_proxy(b"")
        await wire.request(f"GET http://{HOST}:{port}/ HTTP/1.1\nHost: {HOST}:{port}\n\n")
        answer = await wire.request("GET http://b.test/ HTTP/1.1\nHost: b.test\n\n")
        assert answer.status == 403
        wire.close()
    assert net.decisions() == [(HOST, "allowed", None), ("b.test", "denied", "allowlist")]


async def test_a_host_hidden_behind_another_is_refused(net: Internet) -> None:
    net.admit(rules(allow=[HOST]))
    request = f"GET http://{HOST}/ HTTP/1.1\nHost: hidden.example.com\n\n"
    assert (await _status(net, request))[0] == 421


async def test_port_80_is_tunnelled_as_asked(net: Internet) -> None:
    """Also for a host that has a secret: what is in the clear gets none."""
    net.admit(rules(secret(HOST)))
    net.names.known[HOST] = ["127.0.0.2"]
    server = await asyncio.start_server(_shout, "127.0.0.2", 80)
    try:
        wire = await net.tunnel(HOST, 80)
        wire.writer.write(b"anything at all\n")
        assert await wire.reader.readline() == b"ANYTHING AT ALL\n"
        wire.close()
    finally:
        server.close()


async def test_a_host_that_speaks_first_is_heard_at_once(net: Internet) -> None:
    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"SSH-2.0-test\r\n")
        writer.write(await reader.readline())
        writer.write_eof()
        await reader.read()

    net.admit(rules(secret(HOST)))
    async with net.host(HOST, greet, tls=False) as port:
        wire = await net.tunnel(HOST, port)
        assert await wire.reader.readline() == b"SSH-2.0-test\r\n"
        wire.writer.write(b"hello\n")
        assert await wire.rest() == b"hello\n"
        wire.close()


async def test_an_end_in_one_direction_is_passed_on(net: Internet) -> None:
    async def count(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(str(len(await reader.read())).encode())
        await writer.drain()

    net.admit(rules())
    async with net.host(HOST, count, tls=False) as port:
        wire = await net.tunnel(HOST, port)
        wire.writer.write(bytes(3_000_000))
        wire.writer.write_eof()
        assert await wire.rest() == b"3000000"
        wire.close()


async def test_a_host_that_cannot_be_reached_is_502(net: Internet) -> None:
    net.admit(rules())
    net.names.known[HOST] = ["127.0.0.3"]
    assert (await _status(net, f"CONNECT {HOST}:1 HTTP/1.1\n\n"))[0] == 502
    assert net.decisions() == [(HOST, "denied", "unreachable")]


async def test_silence_on_both_sides_ends_a_connection() -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async with internet(ProxyConfig(idle_seconds=0.2)) as net:
        net.admit(rules())
        async with net.host(HOST, silent, tls=False) as port:
            wire = await net.tunnel(HOST, port)
            assert await wire.rest() == b""
        await eventually(lambda: net.decisions() == [(HOST, "allowed", None)])


async def test_one_machine_cannot_have_all_connections() -> None:
    async with internet(ProxyConfig(per_machine=3)) as net:
        net.admit(rules())
        wires = [await net.ask_proxy(b"") for _ in range(3)]
        await eventually(lambda: net.proxy.connections == 3)
        refused = await net.ask_proxy(b"")
        assert await refused.rest() == b""
        assert [event.reason for event in net.log.events] == ["too_many"]
        wires[0].close()
        await eventually(lambda: net.proxy.connections == 2)


async def test_a_head_without_an_end_is_not_collected_for_ever(net: Internet) -> None:
    net.admit(rules())
    wire = await net.ask_proxy(b"CONNECT " + b"a" * 200_000)
    assert (await wire.answer()).status == 431
    wire.close()


async def test_rules_that_change_cut_what_they_no_longer_permit(net: Internet) -> None:
    net.admit(rules(allow=[HOST, "b.test"]))
    async with net.host(HOST, _shout, tls=False) as port, net.host("b.test", _shout, tls=False) as other:
        gone, kept = await net.tunnel(HOST, port), await net.tunnel("b.test", other)
        for wire in (gone, kept):
            wire.writer.write(b"x\n")
            await wire.reader.readline()
        net.admit(rules(allow=["b.test"]))
        assert await gone.rest() == b""
        await eventually(lambda: net.decisions() == [(HOST, "denied", "rules_changed")])
        kept.writer.write(b"y\n")
        assert await kept.reader.readline() == b"Y\n"
        net.table.dismiss("127.0.0.1")
        assert await kept.rest() == b""


async def test_a_proxy_that_is_closed_leaves_nothing_open() -> None:
    async with internet() as net:
        net.admit(rules())
        async with net.host(HOST, _shout, tls=False) as port:
            wire = await net.tunnel(HOST, port)
            await net.proxy.close()
            assert await wire.rest() == b""
            with pytest.raises(OSError):
                await net.ask_proxy(b"")


async def _shout(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while line := await reader.readline():
        writer.write(line.upper())
