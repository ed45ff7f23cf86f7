"""Runs inside a machine: writes down who the machine says it is, every few milliseconds, for ever."""

from __future__ import annotations

import os
import socket
import time

LOG = "/root/seen"


def read(path: str) -> str:
    try:
        with open(path, encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return "-"


def main() -> None:
    log = os.open(LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    while True:
        names = (
            socket.gethostname(),
            read("/etc/machine-id"),
            read("/proc/sys/kernel/random/boot_id"),
            read("/run/opencomputer/generation"),
        )
        os.write(log, (" ".join(names) + "\n").encode())
        time.sleep(0.002)


if __name__ == "__main__":
    main()
