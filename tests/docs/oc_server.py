"""`oc` for many short runs: a process that has loaded it once, and forks itself for each.

The pages call `oc` some eighty times, and each start of Python with all that `oc` needs takes a fifth of a
second of a processor. `python -m tests.docs.oc_server SOCKET` is that process; `SHIM` is the `oc` that asks.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import NoReturn

_START_SECONDS = 90.0
SHIM = """#!{python} -IS
import array, json, os, socket, sys
server = socket.socket(socket.AF_UNIX)
server.connect({socket!r})
asked = json.dumps([sys.argv[1:], os.getcwd(), dict(os.environ)]).encode()
fds = array.array("i", [0, 1, 2])
server.sendmsg([len(asked).to_bytes(4, "big")], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)])
server.sendall(asked)
sys.exit(int(server.recv(8) or b"255"))
"""


@contextmanager
def serving(folder: Path) -> Generator[Path]:
    """A folder with an `oc` in it, for the front of a PATH, for as long as this is entered."""
    address = folder / "oc.sock"
    shim = folder / "bin/oc"
    shim.parent.mkdir(parents=True)
    shim.write_text(SHIM.format(python=sys.executable, socket=str(address)))
    shim.chmod(shim.stat().st_mode | stat.S_IXUSR)
    process = subprocess.Popen([sys.executable, "-m", "tests.docs.oc_server", str(address)])
    try:
        deadline = time.monotonic() + _START_SECONDS
        while not address.exists():
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError("the process that runs `oc` did not start")
            time.sleep(0.02)
        yield shim.parent
    finally:
        process.kill()
        process.wait()


def main() -> NoReturn:
    _load()
    # Children take care of themselves.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(sys.argv[1])
    listening.listen(64)
    gc.freeze()
    while True:
        client, _ = listening.accept()
        if os.fork() == 0:
            listening.close()
            _run(client)
        client.close()


def _load() -> None:
    """What `oc` would load in each run."""
    from opencomputer.cli import root
    from opencomputer.cli.catalogue import SECTIONS

    for module in {each.module for section in SECTIONS for each in section.commands}:
        root.loaded(module)
    for name in ("cli.failures", "sdk.sandbox", "sdk.durable.client", "sdk.exec", "sdk.snapshots"):
        import_module(f"opencomputer.{name}")


def _run(client: socket.socket) -> NoReturn:
    code = 255
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        length, fds, _, _ = socket.recv_fds(client, 4, 3)
        asked = client.recv(int.from_bytes(length, "big"), socket.MSG_WAITALL)
        arguments, folder, environment = json.loads(asked)
        for number, fd in enumerate(fds):
            os.dup2(fd, number)
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environment)
        from opencomputer.cli.main import run

        code = run(arguments)
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 1
    finally:
        with suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
            client.sendall(str(code).encode())
        os._exit(0)


if __name__ == "__main__":
    main()
