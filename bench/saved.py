"""Sandboxes with something to save in them: memory that was touched, bytes and files that were written."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx

READY_SECONDS = 120.0

# Holds its memory, and writes down how long it did not run: the longest gap between two looks at the clock.
HOLDER = """
import os, sys, time
held = os.urandom(1 << 20) * int(sys.argv[1])
open("/tmp/held", "w").close()
longest, last = 0.0, time.monotonic()
while True:
    time.sleep(0.002)
    now = time.monotonic()
    if now - last > longest:
        longest = now - last
        with open("/tmp/gap", "w") as file:
            file.write(str(longest))
    last = now
    if os.path.exists("/tmp/forget"):
        longest = 0.0
        os.remove("/tmp/forget")
"""

FORGET_GAP = "touch /tmp/forget; while [ -e /tmp/forget ]; do sleep 0.01; done; sleep 0.2"
TELL_GAP = "cat /tmp/gap"


@dataclass(frozen=True)
class Load:
    """What is in a sandbox before it is saved."""

    touched_mebibytes: int = 64
    written_mebibytes: int = 0
    files: int = 0

    def describe(self) -> str:
        parts = [f"{self.touched_mebibytes} MiB touched"]
        if self.written_mebibytes:
            parts.append(f"{self.written_mebibytes} MiB written")
        if self.files:
            parts.append(f"{self.files} files")
        return ", ".join(parts)


@dataclass(frozen=True)
class Sandbox:
    client: httpx.Client
    id: str

    @property
    def path(self) -> str:
        return f"/sandboxes/{self.id}"

    def run(self, script: str) -> str:
        body = {"cmd": "sh", "args": ["-c", script], "timeout": 300}
        result = self.client.post(f"{self.path}/exec/run", json=body).raise_for_status().json()
        if result["exitCode"] != 0:
            raise AssertionError(f"{script[:60]!r} ended with {result['exitCode']}: {result['stderr'][:200]}")
        return result["stdout"]

    def post(self, path: str, body: Any = None) -> Any:
        return self.client.post(f"{self.path}/{path}", json=body or {}).raise_for_status().json()

    def longest_gap_milliseconds(self) -> float:
        """How long the holder did not run at the longest since `forget_gap`."""
        return 1000 * float(self.run(TELL_GAP))

    def forget_gap(self) -> None:
        self.run(FORGET_GAP)


def create(client: httpx.Client) -> Sandbox:
    return Sandbox(client, client.post("/sandboxes", json={}).raise_for_status().json()["sandboxID"])


@contextmanager
def loaded(client: httpx.Client, load: Load) -> Generator[Sandbox]:
    """A sandbox that holds what `load` says, gone afterwards."""
    sandbox = create(client)
    try:
        client.put(
            f"{sandbox.path}/files", params={"path": "/tmp/holder.py"}, content=HOLDER
        ).raise_for_status()
        command = {"cmd": "python3", "args": ["/tmp/holder.py", str(load.touched_mebibytes)]}
        sandbox.post("exec", command)
        sandbox.run("while ! [ -e /tmp/held ]; do sleep 0.02; done")
        if load.written_mebibytes:
            sandbox.run(f"head -c {load.written_mebibytes}M /dev/urandom > written; sync")
        if load.files:
            sandbox.run(f"mkdir many && cd many && seq {load.files} | xargs -n 500 touch && sync")
        yield sandbox
    finally:
        client.delete(sandbox.path)


def await_ready(sandbox: Sandbox, checkpoint_id: str) -> None:
    """Wait until a checkpoint is ready."""
    deadline = time.monotonic() + READY_SECONDS
    while time.monotonic() < deadline:
        listed = sandbox.client.get(f"{sandbox.path}/checkpoints").raise_for_status().json()
        found = next(each for each in listed if each["id"] == checkpoint_id)
        if found["status"] == "failed":
            raise AssertionError(f"the checkpoint failed: {found.get('errorMsg')}")
        if found["status"] == "ready":
            return
        time.sleep(0.02)
    raise AssertionError("the checkpoint did not become ready")
