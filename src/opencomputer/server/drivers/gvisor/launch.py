"""Starting runsc so that it finds itself inside the machine's surroundings.

All of this runs in one thread that ends afterwards, because a thread's namespaces cannot be put back. What
the thread starts inherits them: that is how a program comes into a namespace without another program's help.
The machine's mounts and network exist in no namespace but its own, so they vanish with its processes.
"""

from __future__ import annotations

import os
import re
import resource
import select
import signal
import subprocess
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from opencomputer.server.contracts.driver import MachineId
from opencomputer.server.contracts.network import Link
from opencomputer.server.domain.egress import EgressMode
from opencomputer.server.drivers.gvisor.config import MachineFolder, empty_folder
from opencomputer.server.drivers.gvisor.disk import begin_layer
from opencomputer.server.drivers.gvisor.node import Node
from opencomputer.server.host.kernel import Unshare, unshare
from opencomputer.server.host.mounts import bind, bind_read_only, detach_propagation, mount_overlay

_CONSOLE_BYTES = 1 << 16
_OPEN_FILES = 1 << 20
_MOST_OPEN_FILES = Path("/proc/sys/fs/nr_open")
_OWN_STATUS = Path("/proc/self/status")
_CAP_SYS_RESOURCE = 24
_MEMORY_REPORT = Path("/proc/meminfo")
_NETWORK_SETTINGS = Path("/proc/sys/net/core")


class LaunchFailed(Exception):
    """runsc did not start the machine; the message is what it printed."""


class LaunchAbandoned(Exception):
    """The caller gave up; runsc was not started, or has been killed."""


@dataclass(frozen=True)
class LaunchPlan:
    machine_id: MachineId
    folder: MachineFolder
    layers: Sequence[Path]
    link: Link
    egress: EgressMode
    argv: Sequence[str]
    abandoned: threading.Event


def launch(node: Node, plan: LaunchPlan) -> int:
    """Start runsc and wait until it has handed the machine over. Returns its console: a readable pipe.

    Blocks and spends the calling thread. Raises LaunchFailed, LaunchAbandoned, OSError.
    """
    node.before_step("network")
    node.network.enter(plan.link, plan.egress)
    node.before_step("mounts")
    _mount_inside(node, plan)
    node.before_step("runsc")
    console, console_input = os.pipe()
    try:
        _run_detached(node, plan, console_input)
    except BaseException as error:
        os.close(console_input)
        said = read_console(console)
        os.close(console)
        if isinstance(error, LaunchFailed) and said:
            raise LaunchFailed(said) from error
        raise
    os.close(console_input)
    return console


def read_console(console: int) -> str:
    """What has been printed and not been read yet, without waiting."""
    os.set_blocking(console, False)
    try:
        return os.read(console, _CONSOLE_BYTES).decode(errors="replace").strip()
    except BlockingIOError:
        return ""


def _mount_inside(node: Node, plan: LaunchPlan) -> None:
    unshare(Unshare.MOUNTS)
    detach_propagation()
    folder = plan.folder
    node.disks.mount(folder)
    begin_layer(folder.upper, plan.layers)
    mount_overlay(plan.layers, folder.upper, folder.work, folder.root)
    # All machines share this folder, and the option "ro" of the bundle is only a wish: root in a machine
    # can mount it again without. Here it is the host that refuses.
    bind_read_only(node.config.runtime, folder.runtime)
    # The machine is told this much memory; runsc would tell it the host's.
    bind(folder.memory_report, _MEMORY_REPORT)
    _pretend_old_network_namespace(node)


def _pretend_old_network_namespace(node: Node) -> None:
    """Let runsc see that it is not in the host's network namespace.

    Builds of 2024 take a namespace for the host's when /proc/sys/net/core/rmem_default exists, and then
    refuse to run ("cannot run with network enabled in root network namespace"). Kernels since 6.12 show that
    file in every namespace. An empty folder in its place, in this mount namespace only, is what older kernels
    show. Newer builds look elsewhere and do not mind.
    """
    bind(empty_folder(node.config), _NETWORK_SETTINGS)


def _run_detached(node: Node, plan: LaunchPlan, console_input: int) -> None:
    if plan.abandoned.is_set():
        raise LaunchAbandoned
    # A pipe and not a file: runsc writes to a file at an offset of its own. In a session of its own, so that
    # neither the terminal's signals nor our end reach the machine. Nothing else is inherited.
    process = subprocess.Popen(
        [*node.group(plan.machine_id).join_argv(), *_own_limits(), *plan.argv],
        stdin=subprocess.DEVNULL,
        stdout=console_input,
        stderr=console_input,
        start_new_session=True,
        env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"},
    )
    ended = _wait(process, node.config.start_deadline_seconds)
    if plan.abandoned.is_set():
        raise LaunchAbandoned
    if not ended:
        raise LaunchFailed(f"runsc took longer than {node.config.start_deadline_seconds} s")
    if process.returncode != 0:
        raise LaunchFailed(f"runsc ended with {process.returncode}")


def _own_limits() -> list[str]:
    """Process limits that do not depend on how the server was started.

    The machine's kernel holds a file of the host open for each file that is open or remembered inside: the
    usual limit of 1024 is used up by unpacking one archive. A core dump would be the machine's memory.
    """
    files = open_files_limit(
        present=resource.getrlimit(resource.RLIMIT_NOFILE)[1],
        most=int(_MOST_OPEN_FILES.read_text()),
        may_raise=may_raise_limits(_OWN_STATUS.read_text()),
    )
    return ["prlimit", f"--nofile={files}:{files}", "--core=0:0", "--"]


def open_files_limit(*, present: int, most: int, may_raise: bool) -> int:
    """How many files a machine's kernel may hold open: what we want, as far as we can give it. Pure.

    `present` is our own hard limit (negative: none), `most` what the host allows anybody.
    """
    wanted = min(_OPEN_FILES, most)
    if present < 0 or present >= wanted or may_raise:
        return wanted
    return present


def may_raise_limits(status: str) -> bool:
    """Whether a process may go beyond its hard limits, from the text of its /proc/PID/status. Pure."""
    found = re.search(r"^CapEff:\s*([0-9a-f]+)$", status, re.MULTILINE)
    return bool(found and int(found[1], 16) & 1 << _CAP_SYS_RESOURCE)


def _wait(process: subprocess.Popen[bytes], deadline_seconds: float) -> bool:
    """Wait without the polling of `Popen.wait`, which costs up to 50 ms. Kills at the deadline."""
    descriptor = os.pidfd_open(process.pid)
    try:
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        ended = bool(poll.poll(deadline_seconds * 1000))
        if not ended:
            signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        process.wait()
        return ended
    finally:
        os.close(descriptor)
