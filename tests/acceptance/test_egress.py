"""What sandboxes on a real node reach of a small internet, by list, by name and by packet, and what of it is
written down. Everything is counted where it would arrive."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from typing import Any

import pytest

from tests.acceptance.conftest import Setting
from tests.support.box import Box, new_box
from tests.support.outside_world import (
    API,
    DENIED,
    HOSTILE,
    PRIVATE,
    PUBLIC,
    UNLISTED,
)
from tests.support.waiting import until

pytestmark = pytest.mark.machines

CURL = "curl -sS -m 60 --cacert /tmp/test-authority.pem"
ASK_NAMES = """
import socket, sys
def name(text): return b"".join(bytes([len(part)]) + part.encode() for part in text.split(".")) + b"\\0"
for server in ("169.254.169.253", sys.argv[1]):
    for kind in (1, 16, 28, 255):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.settimeout(0.5)
            try:
                sock.sendto(b"\\1\\2\\1\\0\\0\\1" + bytes(6) + name(sys.argv[2]) + bytes([0, kind, 0, 1]),
                            (server, 53))
                sock.recv(512)
            except OSError:
                pass
"""
SEND_DATAGRAM = "import socket,sys; socket.socket(2,2).sendto(b'x', (sys.argv[1], 443))"
BEARER = '"Authorization: Bearer $API_KEY"'
CLIENT_CURL = f"curl -sS -m 60 -H {BEARER} https://{API}/curl"
CLIENT_PYTHON = f"""python3 -c "
import os, urllib.request as r
headers = {{'Authorization': 'Bearer ' + os.environ['API_KEY']}}
print(r.urlopen(r.Request('https://{API}/python', headers=headers)).read().decode())" """
CLIENT_NODE = f"""node -e "
const headers = {{Authorization: 'Bearer ' + process.env.API_KEY}};
fetch('https://{API}/node', {{headers}}).then(a => a.text()).then(console.log)" """
CLIENT_GIT = f"timeout 60 git ls-remote https://{API}/git"
CLIENT_PIP = (
    f"timeout 60 python3 -m pip download --no-cache-dir --retries 0 --index-url https://{API}/simple thing"
)
CLIENT_NPM = f"timeout 60 npm view thing --fetch-retries=0 --registry https://{API}/npm/"
HAMMER = """
import socket, time
end = time.time() + 600
while time.time() < end:
    for port in (80, 443):
        try:
            sock = socket.create_connection(("%s", port), 0.2)
            sock.sendall(b"GET / HTTP/1.0\\r\\nHost: denied.example.test\\r\\n\\r\\n")
            sock.close()
        except OSError:
            pass
"""


@pytest.fixture(scope="module")
def listed(setting: Setting) -> Generator[Box]:
    """A sandbox that may reach two names, one of which leads to a private host."""
    with new_box(setting.server, egressAllowlist=[API, HOSTILE]) as box:
        assert box.write("/tmp/test-authority.pem", setting.world.authority.read_bytes()).status_code == 204
        yield box


def audit(box: Box, tells: Callable[[list[dict[str, Any]]], bool], **params: str) -> list[dict[str, Any]]:
    """What is in the log once it tells this: it is written in batches, and of packets once a second."""

    def events() -> list[dict[str, Any]]:
        return box.client.get(f"{box.path}/audit", params={"limit": "1000", **params}).json()["events"]

    until(lambda: tells(events()), "what is expected of the log")
    return events()


def has_host(name: str) -> Callable[[list[dict[str, Any]]], bool]:
    return lambda events: name in {event["host"] for event in events}


def opened_with_key(event: dict[str, Any]) -> bool:
    return event["protocol"] == "tls" and event["intercepted"] and event["secrets"] == ["API_KEY"]


def decision(event: dict[str, Any]) -> tuple[str, str, int, str]:
    return event["protocol"], event["host"], event["port"], event["decision"]


def test_what_is_on_the_list_is_reached_with_and_without_the_proxy(setting: Setting, listed: Box) -> None:
    """Programs that know nothing of proxies, too."""
    before = len(setting.world.requests)
    assert listed.output(f"{CURL} https://{API}/known") == "hello"
    assert listed.output(f"{CURL} --noproxy '*' https://{API}/unknown") == "hello"
    assert listed.output(f"{CURL} http://{API}/plain") == "hello"
    python = f"import urllib.request as r; print(r.urlopen('https://{API}/python').read().decode())"
    trust = "SSL_CERT_FILE=/tmp/test-authority.pem NODE_EXTRA_CA_CERTS=/tmp/test-authority.pem"
    assert listed.output(f'{trust} python3 -c "{python}"') == "hello"
    node = f"fetch('https://{API}/node').then(a => a.text()).then(console.log)"
    assert listed.output(f'{trust} node -e "{node}"') == "hello"
    assert [path.removeprefix(API) for path in setting.world.requests[before:]] == [
        "/known", "/unknown", "/plain", "/python", "/node",
    ]  # fmt: skip


def test_nothing_else_is_reached_by_any_way(setting: Setting, listed: Box) -> None:
    world = setting.world
    before = len(world.requests)
    attempts = [
        f"{CURL} -f https://{UNLISTED}/",
        f"{CURL} -f --noproxy '*' https://{UNLISTED}/",
        f"{CURL} -f --noproxy '*' --resolve {UNLISTED}:443:{DENIED} https://{UNLISTED}/",
        f"{CURL} -f --noproxy '*' -k https://{DENIED}/",
        f"{CURL} -f --noproxy '*' http://{DENIED}/ -H 'Host: {UNLISTED}'",
        f"{CURL} -f -k https://{DENIED}/literal",
        f"{CURL} -f http://{DENIED}/literal",
        f"{CURL} -f -k https://{HOSTILE}/",
        f"{CURL} -f --noproxy '*' -k --resolve {HOSTILE}:443:{PRIVATE} https://{HOSTILE}/",
        f"{CURL} -f -k -L https://{API}/redirect",
        f"{CURL} -f -k https://[::ffff:{PRIVATE}]/",
        f"{CURL} -f --noproxy '*' -k https://{PRIVATE}/",
    ]
    results = {attempt: listed.run(attempt)["exitCode"] for attempt in attempts}
    assert [attempt for attempt, code in results.items() if code == 0] == []
    listed.run(f'python3 -c "{SEND_DATAGRAM}" {PUBLIC}')
    assert (world.at_denied, world.at_private, world.quic) == ([], [], [])
    assert [path for path in world.requests[before:] if path != f"{API}/redirect"] == []


def test_the_clients_that_people_use_send_a_sealed_secret_that_only_its_host_gets(setting: Setting) -> None:
    """Nothing is set up inside: the certificate of the proxy is trusted by all of them."""
    with setting.server.client() as client:
        store = client.post("/secret-stores", json={"name": "clients", "egressAllowlist": [API]}).json()
        body = {"value": "real-value", "allowedHosts": [API]}
        answer = client.put(f"/secret-stores/{store['id']}/secrets/API_KEY", json=body)
        assert answer.status_code == 200, answer.text
    world = setting.world
    before = len(world.requests)
    with new_box(setting.server, secretStore="clients") as box:
        assert box.output(CLIENT_CURL) == "hello"
        assert box.output(f"{CLIENT_CURL} --noproxy '*'") == "hello"
        assert box.output(CLIENT_PYTHON) == "hello"
        assert box.output(CLIENT_NODE) == "hello"
        for script in (CLIENT_GIT, CLIENT_PIP, CLIENT_NPM):  # they ask for more than this server has
            box.run(script)
        assert box.output("echo $API_KEY").startswith("osb_sealed_")
        log = audit(box, lambda events: any(map(opened_with_key, events)), host=API)
    asked = {path.removeprefix(API).split("?")[0] for path in world.requests[before:]}
    assert asked >= {"/curl", "/python", "/node", "/git/info/refs", "/simple/thing/", "/npm/thing"}
    assert "osb_sealed_" not in str(world.secrets_seen)
    assert world.secrets_seen.count("Bearer real-value") == 4
    assert "real-value" not in str(log)


def test_names_outside_the_list_never_get_to_a_name_server(setting: Setting, listed: Box) -> None:
    assert listed.write("/tmp/ask.py", ASK_NAMES.encode()).status_code == 204
    listed.output(f"python3 /tmp/ask.py {PUBLIC} secret.evil.test")
    listed.output(f"python3 /tmp/ask.py {PUBLIC} {API}")
    assert listed.run("getent hosts more-secret.evil.test")["exitCode"] != 0
    assert [name for name in setting.world.asked if "evil" in name] == []
    assert set(setting.world.asked) <= {API, HOSTILE}


def test_every_decision_is_in_the_log_and_no_content(setting: Setting, listed: Box) -> None:
    listed.output(f"{CURL} 'https://{API}/path?key=not-for-the-log'")
    audit(listed, has_host("more-secret.evil.test"), decision="denied")
    events = audit(listed, lambda events: has_host(API)(events) and has_host(UNLISTED)(events))
    assert {event["decision"] for event in events if event["host"] == API} == {"allowed"}
    assert {event["decision"] for event in events if event["host"] == UNLISTED} == {"denied"}
    assert "not-for-the-log" not in str(events)


def test_a_machine_without_network_asks_no_name_and_reaches_nobody(setting: Setting) -> None:
    asked, requests = len(setting.world.asked), len(setting.world.requests)
    with new_box(setting.server, networkEnabled=False) as box:
        assert box.run(f"curl -sS -m 3 http://{API}/")["exitCode"] != 0
        assert box.run(f"curl -sS -m 3 http://{PUBLIC}/")["exitCode"] != 0
        assert box.output("echo works") == "works"
    assert (len(setting.world.asked), len(setting.world.requests)) == (asked, requests)


def test_an_open_machine_reaches_the_world_and_no_private_host(setting: Setting) -> None:
    with new_box(setting.server) as box:
        assert box.output(f"curl -sS -m 60 http://{API}/open") == "hello"
        assert box.run(f"curl -sSk -m 3 https://{PRIVATE}/")["exitCode"] != 0
        assert box.run(f"curl -sSk -m 3 https://{HOSTILE}/")["exitCode"] != 0
        box.run(f'python3 -c "{SEND_DATAGRAM}" {PUBLIC}')
        expected = {
            ("tcp", PUBLIC, 80, "allowed"),
            ("udp", PUBLIC, 443, "allowed"),
            ("tcp", PRIVATE, 443, "denied"),
        }
        audit(box, lambda events: expected <= set(map(decision, events)))
    assert setting.world.at_private == []


@pytest.mark.timeout(300)
def test_no_packet_gets_to_a_denied_host_while_lists_change_and_the_node_is_killed(setting: Setting) -> None:
    """A program hammers it all the time; afterwards the list still counts, and what is on it is reached."""
    with setting.server.client() as client:
        store = client.post("/secret-stores", json={"name": "lists", "egressAllowlist": [API]}).json()
    with new_box(setting.server, secretStore="lists") as box:
        box.start(f"exec python3 -c '{HAMMER % DENIED}'")
        for hosts in ([HOSTILE], ["*.packages.test"], [API]) * 3:
            body = {"egressAllowlist": hosts}
            assert box.client.put(f"/secret-stores/{store['id']}", json=body).status_code == 200
        setting.server.kill()
        time.sleep(0.5)
        setting.server.start()
        assert box.output(f"curl -sS -m 60 http://{API}/again") == "hello"
        assert setting.world.at_denied == []
        audit(box, bool, decision="denied")
