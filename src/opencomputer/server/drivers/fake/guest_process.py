"""The guest as an ordinary process."""

from __future__ import annotations

import asyncio
import os
import subprocess
import threading
from dataclasses import dataclass
from pathlib import Path

from opencomputer.server.domain.errors import StartFailed
from opencomputer.server.drivers.fake.saving import HOME
from opencomputer.server.host.process_trees import kill_tree
from opencomputer.server.host.processes import ProcessRef, reference
from opencomputer.server.host.tasks import finish

_START_DEADLINE_SECONDS = 20.0
_KILL_DEADLINE_SECONDS = 10.0
_PROGRAM = "import sys; sys.path.insert(0, sys.argv[1]); from guest.main import main_on_host; main_on_host()"


@dataclass(frozen=True)
class GuestProcess:
    process: ProcessRef
    port: int


async def start_guest(python: Path, inside: Path, token: str, folder: Path) -> GuestProcess:
    """Start a guest on 127.0.0.1 and wait for its port. `inside` is the folder with the package `guest`.

    Raises StartFailed. A guest that was started and did not get as far is ended.
    """
    child = await finish(asyncio.to_thread(_spawn, python, inside, token, folder))
    process = reference(child.pid)
    try:
        if process is None or child.stdout is None:
            raise StartFailed(reason="guest")
        async with asyncio.timeout(_START_DEADLINE_SECONDS):
            line = await asyncio.to_thread(child.stdout.readline)
        return GuestProcess(process, int(line))
    except BaseException as error:
        if process is not None:
            kill_tree(process, deadline_seconds=_KILL_DEADLINE_SECONDS)
        if isinstance(error, ValueError | TimeoutError):
            raise StartFailed(reason="guest", log=(folder / "log").read_text()[-600:]) from error
        raise
    finally:
        if child.stdout is not None:
            child.stdout.close()


def _spawn(python: Path, inside: Path, token: str, folder: Path) -> subprocess.Popen[bytes]:
    # The guest ends at the end of its input. It gets the other end of the pipe too, so that this never
    # comes, not even when we die: machines outlive the server.
    stdin, never_closed = os.pipe()
    home = folder / HOME
    try:
        with (folder / "log").open("ab") as log:
            child = subprocess.Popen(
                [str(python), "-I", "-S", "-c", _PROGRAM, str(inside)],
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=log,
                pass_fds=[never_closed],
                start_new_session=True,
                env={"OC_TOKEN": token, "OC_HOME": str(home), "PATH": os.defpath},
            )
    finally:
        os.close(stdin)
        os.close(never_closed)
    (folder / "pid").write_text(str(child.pid))
    threading.Thread(target=child.wait, name=f"reap-{child.pid}", daemon=True).start()
    return child
