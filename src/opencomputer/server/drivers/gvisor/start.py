"""Starting a machine, or leaving nothing behind."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from dataclasses import dataclass

from opencomputer.server.contracts.driver import MachineId, MachineSpec
from opencomputer.server.contracts.network import Link
from opencomputer.server.domain.errors import Conflict, OpenComputerError, StartFailed
from opencomputer.server.drivers.gvisor.bundle import BundleSpec, bundle_config, memory_report
from opencomputer.server.drivers.gvisor.config import MachineFolder
from opencomputer.server.drivers.gvisor.failure import classify
from opencomputer.server.drivers.gvisor.launch import LaunchFailed, LaunchPlan, launch
from opencomputer.server.drivers.gvisor.node import Node, group_limits
from opencomputer.server.drivers.gvisor.removal import remove_machine
from opencomputer.server.drivers.gvisor.snapshot import unpack_writable_layer
from opencomputer.server.host.cgroups import kill_processes
from opencomputer.server.host.processes import ProcessRef, reference
from opencomputer.server.host.tasks import finish
from opencomputer.server.host.threads import run_in_own_thread


@dataclass(frozen=True)
class Started:
    """`console` is a pipe on which the machine's own output arrives."""

    kernel: ProcessRef
    link: Link
    console: int


async def start_machine(node: Node, spec: MachineSpec) -> Started:
    """Start a machine. Raises StartFailed, Conflict (the id is taken), NoCapacity.

    On any failure, cancellation included, whatever had been made is removed before this returns.
    """
    folder = node.folder(spec.id)
    try:
        await asyncio.to_thread(folder.create)
    except FileExistsError:
        raise Conflict("There is a machine of this id already.", machine=spec.id) from None
    abandoned = threading.Event()
    work = asyncio.ensure_future(
        run_in_own_thread(lambda: _start(node, spec, folder, abandoned), name=f"start-{spec.id}")
    )
    try:
        return await asyncio.shield(work)
    except BaseException as error:
        abandoned.set()
        await finish(_undo(node, spec.id, work))
        raise _translated(error) from error


async def _undo(node: Node, machine_id: MachineId, work: asyncio.Future[Started]) -> None:
    # Killing the group ends a runsc that the thread is waiting for, and with it the thread.
    while not work.done():
        await asyncio.to_thread(kill_processes, node.group(machine_id))
        await asyncio.wait([work], timeout=0.05)
    if not work.cancelled() and work.exception() is None:
        os.close(work.result().console)
    await asyncio.to_thread(remove_machine, node, machine_id)


def _start(node: Node, spec: MachineSpec, folder: MachineFolder, abandoned: threading.Event) -> Started:
    node.before_step("group")
    node.group(spec.id).create(group_limits(spec.limits))
    node.before_step("link")
    link = node.network.reserve(spec.id, egress=spec.network)
    node.before_step("files")
    _write_files(node, spec, folder)
    argv = node.runsc.run(spec.id, folder)
    if spec.memory_image is not None:
        node.before_step("image")
        unpack_writable_layer(spec.memory_image, folder.upper)
        argv = node.runsc.restore(spec.id, folder, spec.memory_image)
    console = launch(node, LaunchPlan(spec.id, folder, spec.layers, link, argv, abandoned))
    kernel = reference(int(folder.pid_file.read_text()))
    if kernel is None:
        raise LaunchFailed("the machine ended as soon as it had started")
    return Started(kernel, link, console)


def _write_files(node: Node, spec: MachineSpec, folder: MachineFolder) -> None:
    interpreter = json.loads((node.config.runtime / "argv.json").read_text())
    bundle = BundleSpec(
        root=folder.root,
        runtime=node.config.runtime,
        interpreter=interpreter,
        token=spec.token,
        setuid=node.build.honours_setuid,
        memory_bytes=spec.limits.memory_bytes,
    )
    config = folder.bundle / "config.json"
    config.touch(mode=0o600)
    config.write_text(bundle_config(bundle))
    folder.memory_report.write_text(memory_report(spec.limits.memory_bytes))


def _translated(error: BaseException) -> BaseException:
    """What the caller gets to see. Cancellation and our own errors pass as they are."""
    if isinstance(error, OpenComputerError | asyncio.CancelledError) or not isinstance(error, Exception):
        return error
    if isinstance(error, LaunchFailed):
        failure = classify(str(error))
        return StartFailed(reason=failure.kind.value, runtime=failure.message)
    return StartFailed(reason="host", runtime=f"{type(error).__name__}: {error}")
