# ruff: noqa: SIM115 - to hold files open is what it is for
"""Runs inside a machine: holds files open in every way, and after a line of input says whether all is right.

`prepare` before the machine is saved, `check` in it afterwards and in its copies. Prints one JSON object of
what was found wrong, which is empty when all is right.
"""

from __future__ import annotations

import fcntl
import json
import mmap
import os
import signal
import socket
import sqlite3
import sys

FOLDER = "/root/held"
BLOCK = 1 << 12


def path(name: str) -> str:
    return f"{FOLDER}/{name}"


def put(name: str, text: bytes) -> str:
    with open(path(name), "wb") as file:
        file.write(text)
    return path(name)


def get(name: str) -> bytes:
    with open(path(name), "rb") as file:
        return file.read()


class Held:
    """Everything that is open while the machine is saved."""

    def __init__(self) -> None:
        self._hold_files()
        self._hold_maps_and_folder()
        self._hold_sockets()
        self._hold_others()

    def _hold_files(self) -> None:
        os.makedirs(path("folder"))
        for number in range(300):
            put(f"folder/{number:03}", b"")
        self.read_then_written = open(put("read_then_written", b"before"), "rb", buffering=0)
        self.template_file = open("/etc/hosts.allow-like", "rb", buffering=0)
        self.reader = open(put("reader", b"abcdef"), "rb", buffering=0)
        self.reader.seek(3)
        self.writer = open(put("writer", b"0123456789"), "r+b", buffering=0)
        self.writer.write(b"AB")
        self.appender = open(put("appender", b"one "), "ab", buffering=0)
        self.appender.write(b"two ")
        self.renamed = open(put("old_name", b"first "), "ab", buffering=0)
        os.rename(path("old_name"), path("new_name"))

    def _hold_maps_and_folder(self) -> None:
        self.shared = open(put("shared", b"s" * BLOCK), "r+b", buffering=0)
        self.map = mmap.mmap(self.shared.fileno(), BLOCK)
        self.map[0:4] = b"mmap"
        self.read_map_file = open(put("read_map", b"m" * BLOCK), "rb", buffering=0)
        self.read_map = mmap.mmap(self.read_map_file.fileno(), BLOCK, prot=mmap.PROT_READ)
        assert self.read_map[0:1] == b"m"
        self.directory = os.open(path("folder"), os.O_RDONLY | os.O_DIRECTORY)
        self.listing = os.scandir(path("folder"))
        self.listed = [next(self.listing).name for _ in range(3)]

    def _hold_sockets(self) -> None:
        self.server = socket.socket(socket.AF_UNIX)
        self.server.bind(path("socket"))
        self.server.listen()
        self.client = socket.socket(socket.AF_UNIX)
        self.client.connect(path("socket"))
        self.accepted, _ = self.server.accept()
        self.tcp_server = socket.create_server(("127.0.0.1", 0))
        self.tcp_client = socket.create_connection(self.tcp_server.getsockname())
        self.tcp_accepted, _ = self.tcp_server.accept()

    def _hold_others(self) -> None:
        self.database = sqlite3.connect(path("database"), isolation_level=None)
        self.database.execute("PRAGMA journal_mode=WAL")
        self.database.execute("CREATE TABLE t (x)")
        self.database.execute("BEGIN IMMEDIATE")
        self.database.execute("INSERT INTO t VALUES (1)")

        self.lock = open(put("lock", b""), "wb")
        fcntl.flock(self.lock, fcntl.LOCK_EX)
        self.temporary = open("/tmp/deleted", "w+b", buffering=0)
        self.temporary.write(b"kept in memory")
        os.unlink("/tmp/deleted")
        self.pid = os.getpid()
        signal.signal(signal.SIGALRM, lambda _number, _frame: None)
        signal.setitimer(signal.ITIMER_REAL, 3600)

    def look(self) -> dict[str, object]:
        """What is found, by name of the check."""
        return {
            **self._look_at_files(),
            **self._look_at_maps_and_folder(),
            **self._look_at_sockets(),
            **self._look_at_others(),
        }

    def _look_at_files(self) -> dict[str, object]:
        found: dict[str, object] = {}
        with open(path("read_then_written"), "r+b") as other:
            other.write(b"after!")
        found["read_then_written"] = self.read_then_written.read().decode()
        with open("/etc/hosts.allow-like", "wb") as other:
            other.write(b"changed")
        found["template_file"] = self.template_file.read().decode()
        found["reader"] = self.reader.read().decode()
        self.writer.write(b"CD")
        found["writer"] = get("writer").decode()
        self.appender.write(b"three")
        found["appender"] = get("appender").decode()
        self.renamed.write(b"second")
        found["renamed"] = get("new_name").decode()
        return found

    def _look_at_maps_and_folder(self) -> dict[str, object]:
        found: dict[str, object] = {}
        self.map[4:8] = b"more"
        self.map.flush()
        found["map_written"] = get("shared")[:8].decode()
        with open(path("shared"), "r+b") as other:
            other.seek(8)
            other.write(b"file")
        found["map_read"] = self.map[:12].decode()
        with open(path("read_map"), "r+b") as other:
            other.write(b"NEW")
        found["read_map"] = self.read_map[:3].decode()
        put("folder/added", b"")
        os.unlink(path("folder/000"))
        rest = [entry.name for entry in self.listing]
        found["listing"] = len(set(rest) & {f"{n:03}" for n in range(1, 300)} | set(self.listed)) >= 299
        found["folder"] = sorted(os.listdir(self.directory))[-1] + str(len(os.listdir(self.directory)))
        return found

    def _look_at_sockets(self) -> dict[str, object]:
        found: dict[str, object] = {}
        self.client.sendall(b"ping")
        found["unix"] = self.accepted.recv(10).decode()
        late = socket.socket(socket.AF_UNIX)
        late.settimeout(5)
        late.connect(path("socket"))
        found["unix_listening"] = bool(self.server.accept()[0].fileno())
        self.tcp_client.sendall(b"pong")
        found["loopback"] = self.tcp_accepted.recv(10).decode()
        return found

    def _look_at_others(self) -> dict[str, object]:
        found: dict[str, object] = {}
        self.database.execute("INSERT INTO t VALUES (2)")
        self.database.execute("COMMIT")
        other_connection = sqlite3.connect(path("database"))
        found["database"] = other_connection.execute("SELECT sum(x) FROM t").fetchone()[0]
        found["integrity"] = other_connection.execute("PRAGMA integrity_check").fetchone()[0]
        with open(path("lock"), "wb") as other:
            try:
                fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
                found["lock"] = "free"
            except BlockingIOError:
                found["lock"] = "held"
        self.temporary.seek(0)
        found["temporary"] = self.temporary.read().decode()
        found["pid"] = os.getpid() - self.pid
        found["timer"] = 3000 < signal.getitimer(signal.ITIMER_REAL)[0] <= 3600
        return found


EXPECTED = {
    "read_then_written": "after!",
    "template_file": "changed",
    "reader": "def",
    "writer": "ABCD456789",
    "appender": "one two three",
    "renamed": "first second",
    "map_written": "mmapmore",
    "map_read": "mmapmorefile",
    "read_map": "NEW",
    "listing": True,
    "folder": "added300",
    "unix": "ping",
    "unix_listening": True,
    "loopback": "pong",
    "database": 3,
    "integrity": "ok",
    "lock": "held",
    "temporary": "kept in memory",
    "pid": 0,
    "timer": True,
}


def main() -> None:
    held = Held()
    print("ready", flush=True)
    sys.stdin.readline()
    found = held.look()
    wrong = {name: value for name, value in found.items() if EXPECTED[name] != value}
    print(json.dumps(wrong), flush=True)


if __name__ == "__main__":
    main()
