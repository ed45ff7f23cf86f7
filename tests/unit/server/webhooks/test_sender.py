"""Webhooks reach real receivers, whatever those do; and nothing is sent where nothing may be."""

from __future__ import annotations

import asyncio
import gzip
import socket
import ssl
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from opencomputer.server.contracts.webhooks import WebhookAnswer, WebhookFault
from opencomputer.server.domain.sessions.errors import DestinationForbidden
from opencomputer.server.webhooks.sender import KEPT_BYTES, HttpWebhookSender
from tests.support.receivers import Received, answering, hang_up, receiver, silence

pytestmark = pytest.mark.anyio

HEADERS = {"Content-Type": "application/json", "webhook-id": "evt_1"}


class Names:
    """A resolver whose answers a test can change."""

    def __init__(self, *addresses: str) -> None:
        self.addresses: Sequence[str] = addresses
        self.failing: OSError | None = None

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        if self.failing is not None:
            raise self.failing
        return self.addresses


def lenient(total_seconds: float = 15) -> HttpWebhookSender:
    return HttpWebhookSender(allow_private=True, total_seconds=total_seconds)


async def test_a_webhook_arrives_as_it_was_made() -> None:
    async with receiver(answering(204)) as there:
        assert await lenient().post(there.url, HEADERS, b'{"a":1}') == WebhookAnswer(204)
    [received] = there.received
    assert (received.path, received.body) == ("/hook?a=b", b'{"a":1}')
    assert received.headers["host"] == f"127.0.0.1:{there.port}"
    assert received.headers["webhook-id"] == "evt_1"
    assert received.headers["content-type"] == "application/json"


async def test_a_failure_is_told_with_the_beginning_of_what_the_receiver_says() -> None:
    respond = answering(503, b"no\nroom \x00" + b"x" * 5000, Retry_After="120")
    async with receiver(respond) as there:
        answer = await lenient().post(there.url, HEADERS, b"{}")
    assert (answer.status, answer.retry_after) == (503, 120)
    assert answer.excerpt.startswith("no room")
    assert "\0" not in answer.excerpt
    assert len(answer.excerpt) <= KEPT_BYTES


@pytest.mark.parametrize("value", ["soon", "-5", "1e9", "9" * 40, "Wed, 21 Oct 2026 07:28:00 GMT"])
async def test_a_wait_that_is_no_number_of_seconds_is_passed_over(value: str) -> None:
    async with receiver(answering(500, Retry_After=value)) as there:
        assert (await lenient().post(there.url, HEADERS, b"{}")).retry_after is None


async def test_a_redirect_is_not_followed() -> None:
    async with receiver() as trap, receiver(answering(302, Location=trap.url)) as there:
        assert (await lenient().post(there.url, HEADERS, b"{}")).status == 302
        assert trap.connections == 0


async def test_a_receiver_that_does_not_answer_is_given_up() -> None:
    async with receiver(silence) as there:
        with pytest.raises(WebhookFault, match=r"within 0\.2 seconds|in time"):
            await lenient(total_seconds=0.2).post(there.url, HEADERS, b"{}")


async def test_a_receiver_that_drips_is_given_up_at_the_same_time() -> None:
    async def drip(writer: asyncio.StreamWriter, _received: Received) -> None:
        writer.write(b"HTTP/1.1 500 X\r\n")
        for number in range(10_000):
            writer.write(f"X-{number}: y\r\n".encode())
            await writer.drain()
            await asyncio.sleep(0.02)

    async with receiver(drip) as there:
        with pytest.raises(WebhookFault):
            await lenient(total_seconds=0.3).post(there.url, HEADERS, b"{}")


async def test_only_the_beginning_of_an_endless_answer_is_read() -> None:
    async def endless(writer: asyncio.StreamWriter, _received: Received) -> None:
        writer.write(b"HTTP/1.1 500 X\r\nTransfer-Encoding: chunked\r\n\r\n")
        while True:
            writer.write(b"400\r\n" + b"z" * 1024 + b"\r\n")
            await writer.drain()

    async with receiver(endless) as there:
        assert len((await lenient().post(there.url, HEADERS, b"{}")).excerpt) == KEPT_BYTES


async def test_a_packed_answer_is_not_unpacked() -> None:
    packed = gzip.compress(b"0" * (64 << 20))
    async with receiver(answering(500, packed, Content_Encoding="gzip")) as there:
        answer = await lenient().post(there.url, HEADERS, b"{}")
    assert len(answer.excerpt) <= KEPT_BYTES
    assert "0000" not in answer.excerpt


async def test_who_hangs_up_and_who_is_not_there_are_told_apart() -> None:
    async with receiver(hang_up) as there:
        with pytest.raises(WebhookFault, match="broke the connection off"):
            await lenient().post(there.url, HEADERS, b"{}")
    with pytest.raises(WebhookFault, match="no connection"):
        await lenient().post(there.url, HEADERS, b"{}")


@pytest.mark.parametrize(
    "url",
    [
        "http://example.com/",
        "ftp://example.com/",
        "https://user:pass@example.com/",
        "https://example.com/#fragment",
        "https:///nothing",
        "https://example.com:0/",
        "https://example.com:99999/",
        "https://exa mple.com/",
        "https://example.com/\n",
        "https://example.com\\@127.0.0.1/",
        "https://ex\u00e4mple.com/",
        "https://[fe80::1%25eth0]/",
        "https://./",
        "https://",
        "not a url",
        "",
        "https://example.com/" + "a" * 3000,
    ],
)
async def test_what_is_no_proper_url_is_refused(url: str) -> None:
    with pytest.raises(DestinationForbidden) as refused:
        await HttpWebhookSender(resolve=Names("93.184.216.34")).check(url)
    assert refused.value.details == {"field": "url"}


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "127.1",
        "2130706433",
        "0x7f000001",
        "0177.0.0.1",
        "0.0.0.0",
        "10.1.2.3",
        "169.254.169.254",
        "172.31.255.255",
        "192.168.0.1",
        "100.64.0.1",
        "224.0.0.1",
        "255.255.255.255",
        "[::1]",
        "[::]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[::ffff:a9fe:a9fe]",
        "[::127.0.0.1]",
        "[64:ff9b::7f00:1]",
        "[2002:7f00:1::]",
        "[fd00::1]",
        "[fe80::1]",
        "[ff02::1]",
        "localhost",
        "LOCALHOST.",
    ],
)
async def test_private_addresses_are_refused_however_they_are_written(host: str) -> None:
    sender = HttpWebhookSender()
    with pytest.raises(DestinationForbidden):
        await sender.check(f"https://{host}/hook")
    with pytest.raises(DestinationForbidden):
        await sender.post(f"https://{host}/hook", HEADERS, b"{}")
    await sender.close()


@pytest.mark.parametrize("host", ["8.8.8.8", "[2606:4700::1111]"])
async def test_public_addresses_are_fine(host: str) -> None:
    await HttpWebhookSender().check(f"https://{host}:8443/hook")


async def test_one_private_address_among_others_is_enough_to_refuse() -> None:
    sender = HttpWebhookSender(resolve=Names("93.184.216.34", "10.0.0.1"))
    with pytest.raises(DestinationForbidden):
        await sender.check("https://example.com/")


async def test_a_name_that_means_something_else_later_gets_nothing() -> None:
    names = Names("93.184.216.34")
    sender = HttpWebhookSender(resolve=names)
    async with receiver() as there:
        url = f"https://rebinding.example:{there.port}/"
        await sender.check(url)
        names.addresses = ["127.0.0.1"]
        with pytest.raises(DestinationForbidden):
            await sender.post(url, HEADERS, b"{}")
    assert there.connections == 0


async def test_a_host_that_does_not_exist_is_refused_and_one_that_cannot_be_looked_up_is_not() -> None:
    names = Names()
    sender = HttpWebhookSender(resolve=names)
    names.failing = socket.gaierror(socket.EAI_NONAME, "none")
    with pytest.raises(DestinationForbidden, match="exists"):
        await sender.check("https://example.com/")
    names.failing = socket.gaierror(socket.EAI_AGAIN, "later")
    await sender.check("https://example.com/")
    with pytest.raises(WebhookFault, match="looked up"):
        await sender.post("https://example.com/", HEADERS, b"{}")


async def test_a_host_with_a_name_that_cannot_be_one_is_refused() -> None:
    sender = HttpWebhookSender()
    with pytest.raises((DestinationForbidden, WebhookFault)):
        await sender.post(f"https://{'a' * 70}.example/", HEADERS, b"{}")


async def test_tls_is_spoken_to_the_host_of_the_url_at_the_address_that_was_vetted(tmp_path: Path) -> None:
    server, trust = certificates(tmp_path, "hooks.example")
    sender = HttpWebhookSender(allow_private=True, resolve=Names("127.0.0.1"), trust=trust)
    async with receiver(tls=server) as there:
        assert (await sender.post(f"https://hooks.example:{there.port}/x", HEADERS, b"{}")).status == 200
        assert there.received[0].headers["host"] == f"hooks.example:{there.port}"
        with pytest.raises(WebhookFault, match="certificate"):
            await sender.post(f"https://other.example:{there.port}/x", HEADERS, b"{}")
    assert len(there.received) == 1


def certificates(folder: Path, host: str) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """A server's side that proves to be `host`, and a client's that believes it."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host)])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = folder / "both.pem"
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    pem.write_bytes(private + certificate.public_bytes(serialization.Encoding.PEM))
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(pem)
    trust = ssl.create_default_context(cafile=str(pem))
    return server, trust
