"""Files of real machines: size, ownership, interruption."""

from __future__ import annotations

import hashlib
import os
import socket
from collections.abc import Generator, Iterator
from pathlib import Path

import httpx
import pytest

from tests.support.box import Box, new_box
from tests.support.server import ServerProcess

pytestmark = pytest.mark.machines

MIB = 1 << 20


@pytest.fixture(scope="module")
def box(server: ServerProcess) -> Generator[Box]:
    with new_box(server) as made:
        yield made


def peak_bytes(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


def test_a_hundred_megabytes_there_and_back(box: Box) -> None:
    content = os.urandom(MIB) * 100
    digest = hashlib.sha256(content).hexdigest()
    assert box.write("large.bin", content).status_code == 204
    assert box.output("sha256sum large.bin").split()[0] == digest
    back = box.read("large.bin")
    assert back.headers["content-length"] == str(len(content))
    assert hashlib.sha256(back.content).hexdigest() == digest


def test_a_signed_url_gives_large_files_and_their_parts_and_wakes_the_sandbox(
    server: ServerProcess, box: Box
) -> None:
    assert server.process is not None
    piece = os.urandom(MIB)
    digest = hashlib.sha256(piece * 100).hexdigest()
    urls = {
        operation: box.client.post(f"{box.path}/files/{operation}-url", json={"path": "by url.bin"}).json()[
            "url"
        ]
        for operation in ("upload", "download")
    }
    before = peak_bytes(server.process.pid)
    with httpx.Client(timeout=60) as anybody:
        stored = anybody.put(urls["upload"], content=(piece for _ in range(100)))
        assert stored.status_code == 204
        assert box.output("sha256sum < 'by url.bin'").split()[0] == digest
        received = hashlib.sha256()
        with anybody.stream("GET", urls["download"]) as answer:
            assert answer.headers["content-length"] == str(100 * MIB)
            for chunk in answer.iter_raw(MIB):
                received.update(chunk)
        assert received.hexdigest() == digest
        assert peak_bytes(server.process.pid) - before < 32 * MIB
        assert box.client.post(f"{box.path}/hibernate").status_code == 200
        last = anybody.get(urls["download"], headers={"Range": f"bytes={99 * MIB}-"})
        assert (last.status_code, last.content) == (206, piece)
    assert box.output("rm 'by url.bin'; echo awake") == "awake"


def test_a_stream_of_any_size_takes_little_memory(server: ServerProcess, box: Box) -> None:
    """Three hundred megabytes in and out: the server's highest water mark stays."""
    assert server.process is not None
    piece = os.urandom(MIB)
    before = peak_bytes(server.process.pid)

    def pieces() -> Iterator[bytes]:
        for _ in range(300):
            yield piece

    assert box.write("stream.bin", pieces()).status_code == 204
    count = 0
    with box.client.stream("GET", f"{box.path}/files", params={"path": "stream.bin"}) as answer:
        for chunk in answer.iter_raw(MIB):
            count += len(chunk)
    assert count == 300 * MIB
    assert peak_bytes(server.process.pid) - before < 32 * MIB
    assert int(box.output("stat -c %s stream.bin; rm stream.bin")) == 300 * MIB


def test_a_broken_upload_leaves_the_old_file_and_nothing_else(server: ServerProcess, box: Box) -> None:
    box.output("mkdir -p aborted")
    assert box.write("aborted/file", b"old").status_code == 204
    host, _, port = server.url.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), timeout=10) as raw:
        raw.sendall(
            f"PUT /api{box.path}/files?path=aborted/file HTTP/1.1\r\nHost: x\r\n"
            f"X-API-Key: {server.api_key}\r\nContent-Length: 5000000\r\n\r\n".encode()
        )
        raw.sendall(bytes(2_000_000))
    box.output("for i in $(seq 100); do [ $(ls -A aborted | wc -l) = 1 ] && exit 0; sleep 0.1; done; exit 1")
    assert box.read("aborted/file").content == b"old"


def test_new_files_belong_to_whoever_works_there(box: Box) -> None:
    """To the user where the user may write, else to the folder's owner; what exists keeps owner and mode."""
    for path in ("deep/er/file", "/tmp/file", "/opt/deep/file"):
        assert box.write(path, b"x").status_code == 204
    shown = box.output("stat -c '%U %a' deep deep/er deep/er/file /tmp/file /opt/deep /opt/deep/file")
    assert shown.splitlines() == [
        "sandbox 755",
        "sandbox 755",
        "sandbox 644",
        "sandbox 644",
        "root 755",
        "root 644",
    ]
    box.output("install -m 750 /dev/null tool; sudo -n install -m 600 /dev/null secret")
    for path in ("tool", "secret"):
        assert box.write(path, b"#!/bin/sh\n").status_code == 204
    assert box.output("stat -c '%U %a %s' tool secret").splitlines() == ["sandbox 750 10", "root 600 10"]


def test_a_link_is_followed_to_its_target(box: Box) -> None:
    box.output("mkdir -p target; echo old > target/file; ln -s target/file link")
    assert box.write("link", b"new").status_code == 204
    assert box.output("readlink link; cat target/file") == "target/file\nnew"


def test_what_is_in_the_way(box: Box) -> None:
    """A file as parent 409, a missing file 404, a folder 400, a device 400."""
    box.output("echo > plain; mkfifo pipe; mkdir -p folder")
    assert box.write("plain/below", b"x").status_code == 409
    mkdir = box.client.post(f"{box.path}/files/mkdir", params={"path": "plain/below"})
    assert mkdir.status_code == 409
    assert [box.read(path).status_code for path in ("missing", "folder", "pipe", "/dev/zero")] == [
        404,
        400,
        400,
        400,
    ]


def test_files_of_the_kernel_are_read_to_their_end(box: Box) -> None:
    answer = box.read("/proc/self/status")
    assert answer.status_code == 200
    assert answer.text.startswith("Name:")
