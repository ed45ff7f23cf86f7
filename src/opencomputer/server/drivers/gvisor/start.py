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
from opencomputer.server.drivers.gvisor.bundle import Birth, BundleSpec, bundle_config, memory_report
from opencomputer.server.drivers.gvisor.config import MachineFolder
from opencomputer.server.drivers.gvisor.failure import classify
from opencomputer.server.drivers.gvisor.launch import LaunchFailed, LaunchPlan, launch
from opencomputer.server.drivers.gvisor.node import Node, group_limits
from opencomputer.server.drivers.gvisor.removal import remove_machine
from opencomputer.server.drivers.gvisor.snapshot import read_birth
from opencomputer.server.host.cgroups import NO_LIMIT, kill_processes
from opencomputer.server.host.page_cache import better_read_directly
from opencomputer.server.host.processes import ProcessRef, reference
from opencomputer.server.host.tasks import finish
from opencomputer.server.host.threads import run_in_own_thread

_PAGES = "pages.img"
"""By far the largest file of a memory image."""


@dataclass(frozen=True)
class Started:
    """`console` is a pipe on which the machine's own output arrives."""

    kernel: ProcessRef
    link: Link
    console: int


class _IdTaken(Exception):
    """There is a machine of this id already; what exists is not ours to undo."""


@dataclass
class _Attempt:
    """What the starting thread and its caller tell each other."""

    abandoned: threading.Event
    created: bool = False
    """From now on everything that has the machine's id is ours to undo."""


async def start_machine(node: Node, spec: MachineSpec) -> Started:
    """Start a machine. Raises StartFailed, Conflict (the id is taken), NoCapacity.

    On any failure, cancellation included, whatever had been made is removed before this returns.
    """
    attempt = _Attempt(threading.Event())
    work = asyncio.ensure_future(
        run_in_own_thread(lambda: _start(node, spec, attempt), name=f"start-{spec.id}")
    )
    try:
        return await asyncio.shield(work)
    except Exception as error:
        await finish(_undo(node, spec.id, attempt, work))
        if isinstance(error, OpenComputerError):
            raise
        raise _translated(error) from error
    except BaseException:
        await finish(_undo(node, spec.id, attempt, work))
        raise


async def _undo(node: Node, machine_id: MachineId, attempt: _Attempt, work: asyncio.Future[Started]) -> None:
    attempt.abandoned.set()
    while not work.done():
        if attempt.created:
            # Killing the group ends a runsc that the thread is waiting for, and with it the thread.
            await asyncio.to_thread(kill_processes, node.group(machine_id))
        await asyncio.wait([work], timeout=0.05)
    if work.exception() is None:
        os.close(work.result().console)
    if attempt.created:
        await asyncio.to_thread(remove_machine, node, machine_id)


def _start(node: Node, spec: MachineSpec, attempt: _Attempt) -> Started:
    folder = node.folder(spec.id)
    node.before_step("folder")
    try:
        folder.create()
    except FileExistsError:
        raise _IdTaken(spec.id) from None
    attempt.created = True
    node.before_step("group")
    group = node.group(spec.id)
    group.create(group_limits(spec.limits))
    if spec.memory_image is not None:
        # Until it is restored only the machine's kernel works, and somebody waits for it.
        group.set_cpu_limit(NO_LIMIT)
    node.before_step("link")
    link = node.network.reserve(spec.id)
    node.before_step("files")
    birth = Birth(spec.limits.memory_bytes) if spec.memory_image is None else read_birth(spec.memory_image)
    _write_files(node, spec, folder, birth)
    node.before_step("disk")
    node.disks.create(folder, spec.limits.disk_bytes)
    if spec.memory_image is None:
        argv = node.runsc.run(spec.id, folder)
    else:
        direct = better_read_directly(spec.memory_image / _PAGES)
        argv = node.runsc.restore(spec.id, folder, spec.memory_image, direct=direct)
    plan = LaunchPlan(spec.id, folder, spec.layers, link, spec.egress, argv, attempt.abandoned)
    console = launch(node, plan)
    group.set_limits(group_limits(spec.limits))
    kernel = reference(int(folder.pid_file.read_text()))
    if kernel is None:
        raise LaunchFailed("the machine ended as soon as it had started")
    return Started(kernel, link, console)


def _write_files(node: Node, spec: MachineSpec, folder: MachineFolder, birth: Birth) -> None:
    interpreter = json.loads((node.config.runtime / "argv.json").read_text())
    bundle = BundleSpec(
        root=folder.root,
        runtime=folder.runtime,
        interpreter=interpreter,
        token=spec.token,
        setuid=node.build.honours_setuid,
        birth=birth,
    )
    config = folder.bundle / "config.json"
    config.touch(mode=0o600)
    config.write_text(bundle_config(bundle))
    folder.birth.write_text(birth.to_json())
    folder.memory_report.write_text(memory_report(spec.limits.memory_bytes))


def _translated(error: Exception) -> OpenComputerError:
    """What the caller gets to see."""
    if isinstance(error, _IdTaken):
        return Conflict("There is a machine of this id already.", machine=str(error))
    if isinstance(error, LaunchFailed):
        failure = classify(str(error))
        return StartFailed(reason=failure.kind.value, runtime=failure.message)
    return StartFailed(reason="host", runtime=f"{type(error).__name__}: {error}")
