"""What a real machine reaches on the network, and what it does not."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Generator

import pytest

from tests.support.box import Box, new_box
from tests.support.server import ServerProcess
from tests.support.sockets import HOST, tcp_listener

pytestmark = pytest.mark.machines

LISTENED = 47813
METADATA = "http://169.254.169.254"
ASK = "curl -sS -m 5 -w '\\n%{http_code}'"
FORBIDDEN = ["10.0.0.1", "172.16.0.1", "192.168.0.1", "100.64.0.1", "169.254.1.1", "0.0.0.0", "224.0.0.1"]
TRY_ALL = """
import socket, sys, threading
reached = []
def attempt(target):
    host, port = target.rsplit(":", 1)
    try:
        socket.create_connection((host, int(port)), 3).close()
        reached.append(target)
    except OSError:
        pass
threads = [threading.Thread(target=attempt, args=(target,)) for target in sys.argv[1:]]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print(*reached)
"""


@pytest.fixture(scope="module")
def server(shared_server: ServerProcess) -> ServerProcess:
    """Nothing here is done to the node."""
    return shared_server


@pytest.fixture(scope="module")
def box(server: ServerProcess) -> Generator[Box]:
    with new_box(server) as made:
        yield made


@pytest.fixture(scope="module")
def neighbour(server: ServerProcess) -> Generator[Box]:
    with new_box(server) as made:
        yield made


def reached(box: Box, targets: list[str]) -> list[str]:
    body = {"cmd": "python3", "args": ["-c", TRY_ALL, *targets]}
    answer = box.client.post(f"{box.path}/exec/run", json=body).json()
    assert answer["exitCode"] == 0, answer
    return answer["stdout"].split()


def host_addresses() -> list[str]:
    shown = subprocess.run(["ip", "-4", "-j", "address"], capture_output=True, text=True, check=True).stdout
    return [address["local"] for link in json.loads(shown) for address in link["addr_info"]]


def address_of(box: Box) -> str:
    return box.output("ip -4 -o addr show eth0 | awk '{print $4}' | cut -d/ -f1")


def test_the_machine_is_told_about_itself_only(server: ServerProcess, box: Box, neighbour: Box) -> None:
    for each in (box, neighbour):
        status = json.loads(each.output(f"curl -sS {METADATA}/v1/status"))
        assert status["sandboxId"] == each.id
        assert status["uptime"] >= 0
    limits = json.loads(box.output(f"curl -sS {METADATA}/v1/limits"))
    assert limits["memLimit"] == 4096 << 20
    assert limits["pids"] > 0
    assert json.loads(box.output(f"curl -sS {METADATA}/v1/metadata"))["template"] == "base"
    assert box.output(f"{ASK} {METADATA}/latest/meta-data/").endswith("404")
    everything = box.output(f"for p in / /v1/status /v1/limits /v1/metadata; do curl -sS {METADATA}$p; done")
    for secret in (server.api_key, neighbour.id, server.node_tag, "osb_"):
        assert secret not in everything


def test_the_model_answers_the_own_machine(box: Box) -> None:
    """From inside, without a key; not from the host."""
    message = {
        "model": "claude-sonnet-4-20250514",
        "max_tokens": 50,
        "messages": [{"role": "user", "content": "hello"}],
    }
    url = f"{METADATA}/v1/model/anthropic/v1/messages"
    box.write("message.json", json.dumps(message).encode())
    answer = json.loads(box.output(f"curl -sS -H 'content-type: application/json' -d @message.json {url}"))
    assert answer["role"] == "assistant"
    assert answer["content"]


def test_nothing_private_is_reached(server: ServerProcess, box: Box, neighbour: Box) -> None:
    """Neither networks that are nobody's business nor this host, on ports where something listens."""
    port = int(server.url.rpartition(":")[2])
    other = address_of(neighbour)
    mine = host_addresses()
    with tcp_listener(HOST, "0.0.0.0", LISTENED) as peers:
        open_ports = (port, LISTENED, 22, 7000, 80)
        targets = [f"{address}:{number}" for address in mine for number in open_ports]
        targets = [target for target in targets if not target.startswith("127.")]
        targets += [f"{address}:80" for address in FORBIDDEN]
        targets += [f"{other}:7000", f"{other}:22", "169.254.169.254:7000", f"169.254.169.254:{port}"]
        assert reached(box, targets) == []
        assert peers == []


def test_a_server_in_the_neighbour_is_not_reached(box: Box, neighbour: Box) -> None:
    neighbour.start("exec python3 -m http.server 8000 --bind 0.0.0.0")
    neighbour.output("until curl -s localhost:8000 >/dev/null; do sleep 0.1; done")
    assert reached(box, [f"{address_of(neighbour)}:8000"]) == []


def test_a_machine_without_network_is_without(server: ServerProcess) -> None:
    """And serves the API all the same."""
    with new_box(server, networkEnabled=False) as box:
        assert box.output("echo works") == "works"
        assert box.write("file", b"x").status_code == 204
        assert box.run("curl -sS -m 3 https://pypi.org")["exitCode"] != 0
        assert (
            reached(box, ["1.1.1.1:53", "1.1.1.1:443", "8.8.8.8:53", *(f"{a}:80" for a in FORBIDDEN)]) == []
        )
        assert box.client.get(box.path).json()["networkEnabled"] is False


def host_can(*command: str) -> bool:
    return subprocess.run(command, capture_output=True).returncode == 0


def test_packages_come_from_where_the_host_gets_them(box: Box) -> None:
    """pip installs one; npm and git speak TLS to their servers with the host's authorities."""
    if not host_can("curl", "-sSf", "-m", "10", "-o", "/dev/null", "https://pypi.org/simple/iniconfig/"):
        pytest.skip("this host reaches no package index itself")
    box.output("python3 -m venv env && env/bin/pip install -q --no-deps iniconfig", timeout=110)
    assert box.output("env/bin/python -c 'import iniconfig; print(iniconfig.__name__)'") == "iniconfig"
    if host_can("curl", "-sSf", "-m", "10", "-o", "/dev/null", "https://registry.npmjs.org/is-odd"):
        assert box.output("npm view is-odd name", timeout=60) == "is-odd"
